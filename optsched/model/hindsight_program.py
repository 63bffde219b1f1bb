"""The hindsight problem as an integer program: how many of each type start after each round.

With x[i, k] = requests of type i that start after round k, in the notation of
:mod:`optsched.model.hindsight`:

    sum over k of x[i, k]                                       = count of i
    sum over i and k in r - O_i .. r - 1 of kv_i(r - k) x[i, k] <= M          for every round r

and likewise for the tokens and requests that a batch processes. The largest of something (the end
of the last request, the largest latency) is counted in unary: q_l = 1 if some request reaches
level l, so q_l >= q_(l+1) and sum over x of level l <= n q_l.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError, require
from optsched.instance import Instance, require_feasible
from optsched.model.hindsight import Rounds, covers, rounds_of
from optsched.model.milp import Block, Milp, block
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_NO_CONDITIONS: Mapping[Objective, float] = MappingProxyType({})
_LARGEST = (Objective.MAKESPAN, Objective.MAX_LATENCY)
_SLACK = 1e-9  # relative, so that a value that is reached is not cut off by rounding


class HindsightVariables:
    """Columns of the program and their meaning.

    Parameters
    ----------
    instance : Instance
        One that :func:`optsched.model.hindsight.covers`.
    horizon : int, optional
        Rounds within which all requests end; by default enough for an optimum.
    policies : collection of str
        ``nonpreemptive`` and what it implies.
    objective : Objective
        What is minimised; not goodput.
    at_most : mapping
        Conditions: the value of each objective is at most this, seconds.

    Attributes
    ----------
    rounds : Rounds
    kind, start : int arrays, shape ``(starts,)``
        Type and round of column x, which has this number.
    levels : int array, shape ``(levels,)``
        Columns q_1, q_2, ..; none unless the objective is a largest value.
    columns : int

    Raises
    ------
    UnsupportedError
        The model does not apply, or the objective is goodput.
    InfeasibleError
        A request cannot run even alone.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        horizon: int | None = None,
        policies: Collection[str] = ("nonpreemptive",),
        objective: Objective = Objective.MEAN_LATENCY,
        at_most: Mapping[Objective, float] = _NO_CONDITIONS,
    ) -> None:
        verdict = covers(instance, {*policies, "nonpreemptive"})
        if not verdict.holds:
            raise UnsupportedError(f"no model in rounds: {verdict.reason}")
        for each in (objective, *at_most):
            if each is Objective.GOODPUT:
                raise UnsupportedError(
                    "the model in rounds does not count goodput",
                    hint="the network formulation covers it under policy nonpreemptive",
                )
        require_feasible(instance, ("no-chunk",))
        self.instance, self.objective, self.at_most = instance, objective, dict(at_most)
        self.rounds: Rounds = rounds_of(instance)
        rounds = self.rounds
        self.horizon = rounds.horizon if horizon is None else horizon
        least = int((rounds.release + rounds.output).max())
        require(self.horizon >= least, "horizon", self.horizon, f"at least {least} rounds")
        spans = self.horizon - rounds.output - rounds.release + 1
        self.kind: IntArray = np.repeat(np.arange(spans.size), spans)
        firsts = np.repeat(rounds.release - np.cumsum(spans) + spans, spans)
        self.start: IntArray = np.arange(self.kind.size) + firsts
        most = int(self.level(objective).max()) if objective in _LARGEST else 0
        self.levels: IntArray = self.kind.size + np.arange(most)
        self.columns: int = self.kind.size + most

    def level(self, objective: Objective) -> IntArray:
        """Rounds that each start counts for: until its end or first token, from its arrival or,
        for the makespan, from the beginning; shape ``(starts,)``."""
        rounds = self.rounds
        done = self.start + 1
        if objective is not Objective.MEAN_TTFT:
            done = self.start + rounds.output[self.kind]
        if objective is Objective.MAKESPAN:
            return done
        return np.asarray(done - rounds.release[self.kind], dtype=np.int64)

    def encode(self, schedule: Schedule) -> FloatArray:
        """The point of a non-preemptive schedule, shape ``(columns,)``.

        Raises
        ------
        UnsupportedError
            A request is interrupted or evicted, chunks, waits deliberately or for the arrival of
            another, or ends after the horizon.
        """
        rounds = self.rounds
        batch, release = self._first_batches(schedule), np.zeros(len(self.instance), np.int64)
        kind_of = np.zeros(len(self.instance), dtype=np.int64)
        for i, kind in enumerate(rounds.types):
            members = list(kind.members)
            kind_of[members], release[members] = i, rounds.release[i]
        point = np.zeros(self.columns)
        column = {key: c for c, key in enumerate(zip(self.kind, self.start, strict=True))}
        starts = _batch_starts(batch, release, schedule.batch_count)
        start = starts[batch]
        if (starts[batch + self.instance.output_tokens - 1] - start
                != self.instance.output_tokens - 1).any():  # fmt: skip
            raise UnsupportedError("a request that runs waits for the arrival of another")
        for i, k in zip(kind_of.tolist(), start.tolist(), strict=True):
            if (i, k) not in column:
                raise UnsupportedError(
                    f"a request starts after round {k}, too late for {self.horizon} rounds",
                    hint="build the program with a horizon that contains the schedule",
                )
            point[column[i, k]] += 1
        if self.levels.size:
            used = np.flatnonzero(point[: self.kind.size])
            point[self.levels[: self.level(self.objective)[used].max()]] = 1
        return point

    def decode(self, point: FloatArray) -> Schedule:
        """The schedule of a point; rounds in which nothing runs are no batches."""
        starts = np.rint(point[: self.kind.size]).astype(np.int64)
        kinds, begins = np.repeat(self.kind, starts), np.repeat(self.start, starts)
        members = [list(kind.members) for kind in self.rounds.types]
        requests = [members[i].pop(0) for i in kinds.tolist()]
        return schedule_of_starts(self.instance, np.array(requests), begins)

    def _first_batches(self, schedule: Schedule) -> IntArray:
        """The batch that fills each request, shape ``(requests,)``."""
        runs = schedule.merged()
        first = np.zeros(len(self.instance), dtype=np.int64)
        np.maximum.at(first, runs.request, runs.first_batch)
        np.minimum.at(first, runs.request, runs.first_batch)
        processed = np.bincount(
            runs.request, runs.batches * (runs.kind == Kind.PROCESS), len(self.instance)
        )
        last = np.zeros(len(self.instance), dtype=np.int64)
        np.maximum.at(last, runs.request, runs.first_batch + runs.batches - 1)
        output = self.instance.output_tokens
        if (
            (runs.kind != Kind.PROCESS).any()
            or runs.wait_batch.size
            or not np.array_equal(processed, output)
            or not np.array_equal(last - first + 1, output)
        ):
            raise UnsupportedError("the schedule interrupts, chunks or delays a request")
        return first


def schedule_of_starts(instance: Instance, request: IntArray, start: IntArray) -> Schedule:
    """The schedule in which ``request[n]`` starts after round ``start[n]``; empty rounds are
    no batches."""
    output, prompt = instance.output_tokens[request], instance.prompt_tokens[request]
    busy = np.zeros(int((start + output).max()) + 1, dtype=np.int64)
    np.add.at(busy, start, 1)
    np.add.at(busy, start + output, -1)
    batch = np.cumsum(np.cumsum(busy) > 0)  # of round k + 1, where that is not empty
    longer = output > 1
    process = np.full(request.size + int(longer.sum()), int(Kind.PROCESS))
    return Schedule(
        request=np.concatenate((request, request[longer])),
        kind=process,
        first_batch=np.concatenate((batch[start], batch[start][longer] + 1)),
        batches=np.concatenate((np.ones_like(request), (output - 1)[longer])),
        tokens=np.concatenate((prompt, np.ones(int(longer.sum()), dtype=np.int64))),
    ).merged()


def _batch_starts(batch: IntArray, release: IntArray, batches: int) -> IntArray:
    """The round after which each batch starts, shape ``(batches + 1,)`` with the first unused;
    ``batch`` is what fills each request."""
    arrived = np.zeros(batches + 1, dtype=np.int64)
    np.maximum.at(arrived, batch, release)
    # Batch j starts at the latest of (arrivals for batch i) + j - i over 1 <= i <= j.
    order = np.arange(arrived.size)
    latest = np.maximum.accumulate((arrived - order)[1:])
    return np.concatenate(([0], latest + order[1:])).astype(np.int64)


def build(variables: HindsightVariables) -> Milp:
    """The program, minimising the objective in seconds."""
    starts = variables.kind.size
    cost = np.zeros(variables.columns)
    round_s, requests = variables.rounds.round_s, len(variables.instance)
    blocks = [_completion(variables), *_limits(variables), *_at_most(variables)]
    if variables.objective in _LARGEST:
        cost[variables.levels] = round_s
        blocks.append(_levels(variables))
    else:
        cost[:starts] = variables.level(variables.objective) * (round_s / requests)
    upper = np.ones(variables.columns)
    upper[:starts] = variables.rounds.count[variables.kind]
    for objective, value in variables.at_most.items():
        if objective in _LARGEST:
            late = variables.level(objective) * round_s > value * (1 + _SLACK)
            upper[:starts][late] = 0.0
    pairs = zip(variables.kind.tolist(), variables.start.tolist(), strict=True)
    names = [f"start_t{i}_k{k}" for i, k in pairs]
    names += [f"reached_l{level + 1}" for level in range(variables.levels.size)]
    return Milp(
        name=f"{variables.instance.name}-rounds", cost=cost, offset=0.0,
        lower=np.zeros(variables.columns), upper=upper,
        integer=np.ones(variables.columns, dtype=np.bool_), column_names=tuple(names),
        blocks=tuple(b for b in blocks if b.rows),
    )  # fmt: skip


def _completion(variables: HindsightVariables) -> Block:
    count = variables.rounds.count
    columns = np.arange(variables.kind.size)
    return block("completion", variables.kind, columns, 1.0, count, count)


def _limits(variables: HindsightVariables) -> list[Block]:
    """Rows of KV, processed and prefill tokens and requests, where they can bind."""
    limits, rounds = variables.instance.limits, variables.rounds
    output = rounds.output[variables.kind]
    columns = np.repeat(np.arange(variables.kind.size), output)
    age = np.arange(columns.size) - np.repeat(np.cumsum(output) - output, output)
    row = variables.start[columns] + age  # round r is row r - 1
    kv = np.concatenate([rounds.kv_of(i) for i in range(len(rounds.types))])
    firsts = np.cumsum(rounds.output) - rounds.output
    kv = kv[firsts[variables.kind[columns]] + age]
    fill = np.where(age == 0, rounds.prompt[variables.kind[columns]], 0)
    prompts, requests = int((rounds.prompt * rounds.count).sum()), len(variables.instance)
    tokens = np.where(age == 0, fill, 1)
    found = []
    for name, values, limit, largest in (
        ("kv_capacity", kv, limits.kv_tokens, None),
        ("batch_tokens", tokens, limits.batch_tokens, prompts),
        ("prefill_tokens", fill, limits.fill_tokens, prompts),
        ("batch_requests", np.ones_like(kv), limits.batch_requests, requests),
    ):
        if limit is not None and (largest is None or largest > limit):
            upper = np.full(variables.horizon, float(limit))
            found.append(block(name, row, columns, values, -np.inf, upper))
    return found


def _levels(variables: HindsightVariables) -> Block:
    """n q_l >= sum of x of level l and q_l >= q_(l+1)."""
    levels, requests = variables.levels, len(variables.instance)
    level = variables.level(variables.objective)
    reached = np.arange(levels.size)
    chain = levels.size + np.arange(levels.size - 1)
    return block(
        "levels",
        np.concatenate((level - 1, reached, chain, chain)),
        np.concatenate((np.arange(level.size), levels, levels[:-1], levels[1:])),
        np.concatenate(
            (np.ones(level.size), np.full(levels.size, -float(requests)),
             np.full(chain.size, -1.0), np.ones(chain.size))
        ),
        -np.inf, np.zeros(2 * levels.size - 1),
    )  # fmt: skip


def _at_most(variables: HindsightVariables) -> list[Block]:
    """Rows of the means that are limited; the largest values are limits of columns."""
    found = []
    share = variables.rounds.round_s / len(variables.instance)
    for objective, value in variables.at_most.items():
        if objective not in _LARGEST:
            columns = np.arange(variables.kind.size)
            values = variables.level(objective) * share
            upper = np.array([value * (1 + _SLACK)])
            found.append(block("at_most", np.zeros_like(columns), columns, values, -np.inf, upper))
    return found
