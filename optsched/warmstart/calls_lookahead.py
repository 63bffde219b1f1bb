"""Look-ahead for requests with calls: a schedule, or what it is worth, for given settings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import RequestTimes, meets_objectives
from optsched.warmstart.calls_compiled import compiled_serve
from optsched.warmstart.calls_serve import serve
from optsched.warmstart.calls_settings import Settings, has_deadlines, rule_of
from optsched.warmstart.calls_shape import IntArray, law_of, room_of, shape_of
from optsched.warmstart.calls_state import (
    BATCH,
    EVICT,
    LEFT,
    PROCESS,
    STEPS,
    SWAP_IN,
    SWAP_OUT,
    State,
)

_PLAIN = 2000  # steps up to which the loop is not worth compiling
_AFFORDABLE = 3e5  # steps of all tries together, for some seconds
_AFFORDABLE_COMPILED = 4e7
_FOREVER = 20  # times the batches of other settings
_UNWRITTEN = np.zeros((0, 4), dtype=np.int64)
_KINDS = np.zeros(4, dtype=np.int64)
for _own, _kind in (
    (PROCESS, Kind.PROCESS), (EVICT, Kind.EVICT), (SWAP_OUT, Kind.SWAP_OUT),
    (SWAP_IN, Kind.SWAP_IN),
):  # fmt: skip
    _KINDS[_own] = _kind


class LookAhead:
    """The loop for one instance.

    Parameters
    ----------
    instance : Instance
        Feasible.

    Attributes
    ----------
    instance : Instance
        The same with its requests by arrival.
    affordable : int
        Runs that take some seconds.
    spread_s : float
        Standard deviation of the work of requests.
    """

    def __init__(self, instance: Instance) -> None:
        # By arrival, as ties in the order of service are.
        self._position = np.argsort(instance.release_s, kind="stable")
        instance = msgspec.structs.replace(
            instance, requests=tuple(instance.requests[i] for i in self._position.tolist())
        )
        self.instance = instance
        self.shape = shape_of(instance)
        self._law, self._room = law_of(instance), room_of(instance)
        tokens = int(instance.final_tokens.sum())
        steps = int(instance.output_tokens.sum()) + tokens // instance.limits.fill_tokens
        self._most_batches = 3 * tokens + 1000  # serial takes at most as many as tokens
        self._worth_trying = self._most_batches
        fast = steps > _PLAIN
        self._serve: Callable[..., State] = compiled_serve() if fast else serve
        self.affordable = int((_AFFORDABLE_COMPILED if fast else _AFFORDABLE) // steps)
        work = np.log1p(instance.output_tokens.astype(np.float64))
        step = float(instance.cost.token_time(1))
        self.spread_s = step * float(np.exp(work.mean()) + instance.output_tokens.std())

    def loss(self, settings: Settings, objective: Objective) -> float:
        """What to compare settings by, less is better; infinity if they do not serve everybody."""
        state = self._run(settings, _UNWRITTEN, self._worth_trying)
        if state.counts[LEFT]:
            return np.inf
        # Settings under which requests take each other's memory for ever are soon given up.
        many = _FOREVER * int(state.counts[BATCH]) + 1000
        self._worth_trying = min(self._worth_trying, many)
        release = self.instance.release_s
        if objective is Objective.MAKESPAN:
            return float(state.finish_s.max())
        if objective is Objective.MEAN_LATENCY:
            return float((state.finish_s - release).mean())
        if objective is Objective.MEAN_TTFT:
            return float((state.first_s - release).mean())
        if objective is Objective.MAX_LATENCY:
            return float((state.finish_s - release).max())
        gaps = np.where(self.instance.output_tokens > 1, self.instance.output_tokens - 1, np.nan)
        tpot = (state.finish_s - state.first_s) / gaps
        times = RequestTimes(
            ttft_s=state.first_s - release, latency_s=state.finish_s - release, tpot_s=tpot,
            tpot_without_pauses_s=tpot,
        )  # fmt: skip
        return -float(self.instance.weights[meets_objectives(self.instance, times)].sum())

    def schedule(self, settings: Settings) -> Schedule:
        """The schedule of settings that serve everybody."""
        rows = 1 << 16
        while True:
            log = np.zeros((rows, 4), dtype=np.int64)
            state = self._run(settings, log, self._most_batches)
            if state.counts[STEPS] <= rows:
                steps = log[: state.counts[STEPS]]
                steps[:, 0] = self._position[steps[:, 0]]
                steps[:, 1] = _KINDS[steps[:, 1]]
                return from_steps(steps)
            rows = int(state.counts[STEPS])

    def _run(self, settings: Settings, log: IntArray, most: int) -> State:
        rule = rule_of(self.instance, self.shape, settings)
        return self._serve(self.shape, self._law, self._room, rule, has_deadlines(rule), log, most)
