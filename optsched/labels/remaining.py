"""What every schedule has still to do from a label on: the search's lower bounds."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from optsched.instance import Instance
from optsched.labels.steps import GONE, Step, Steps
from optsched.objective import Objective

LABELLED = (
    Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.MAX_LATENCY,
)  # fmt: skip


class Work(NamedTuple):
    """What one request has still to do at least: tokens and attention (s) to process, pages' tokens
    held in the batches of its steps, and their number."""

    tokens: int
    attention_s: float
    pages: int
    steps: int


class Remaining:
    """Lower bounds on what follows; seconds.

    Parameters
    ----------
    instance : Instance
    steps : tuple of Steps
    """

    def __init__(self, instance: Instance, steps: tuple[Steps, ...]) -> None:
        self._cost, self._limits, self._steps = instance.cost, instance.limits, steps
        self.own_s = cache(self._own_s)
        self.work = cache(self._work)
        first = [(alpha, beta) for alpha, beta in self._cost.pieces if alpha >= 0]
        self._lines = first or [(0.0, 0.0)]

    def _alone_s(self, step: Step) -> float:
        """Time of a batch of this step alone: no batch that has it is shorter."""
        cost = self._cost
        weights = max(alpha + beta * step.tokens for alpha, beta in cost.pieces)
        return weights + step.attention_s + (cost.d0 if step.decode else cost.p0)

    def _own_s(self, i: int, g: int, place: int) -> float:
        """From the start of its next step to the end of the request, alone."""
        steps = self._steps[i]
        if g == steps.output:
            return 0.0
        total = self._next_s(i, g, place)
        for k in range(g + 1, steps.output):
            fill, on = steps.fill[k], steps.on[k]
            assert on is not None
            total += steps.pause_s[k] + min(self._alone_s(fill), self._alone_s(on))
        return total

    def _next_s(self, i: int, g: int, place: int) -> float:
        steps = self._steps[i]
        fill, on = steps.fill[g], steps.on[g]
        if place == GONE or on is None:
            return self._alone_s(fill)
        # From the host too: it may come back in an earlier batch, where the copy delays nobody.
        return min(self._alone_s(on), self._alone_s(fill))

    def first_token_s(self, i: int) -> float:
        """Time of the batch that generates a first token, alone."""
        return self._alone_s(self._steps[i].fill[0])

    def _work(self, i: int, g: int, place: int) -> Work:
        steps = self._steps[i]
        tokens, attention, pages = 0, 0.0, 0
        for k in range(g, steps.output):
            fill, on = steps.fill[k], steps.on[k]
            pages += fill.pages
            if on is None or (k == g and place == GONE):
                tokens, attention = tokens + fill.tokens, attention + fill.attention_s
            else:
                tokens += on.tokens
                attention += min(on.attention_s, fill.attention_s)
        return Work(tokens, attention, pages, steps.output - g)

    def machine_s(self, work: list[Work]) -> float:
        """Least time of the batches that do all this work.

        N batches of n_j tokens take sum max_k (alpha_k + beta_k n_j) >= alpha_k N + beta_k sum n_j.
        Where alpha_k >= 0, N may be replaced by less: a request takes one step per batch, a batch
        holds M pages' tokens, those of its own steps among them, and processes C tokens.
        """
        tokens = sum(each.tokens for each in work)
        pages = sum(each.pages for each in work)
        count = max(
            max(each.steps for each in work),
            -(-pages // self._limits.kv_tokens), -(-tokens // self._limits.batch_tokens),
        )  # fmt: skip
        lines = max(alpha * count + beta * tokens for alpha, beta in self._lines)
        return sum(each.attention_s for each in work) + lines
