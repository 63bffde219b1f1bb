"""Search over settings and over the order of requests with calls, by any objective.

One run of the loop takes milliseconds, so that hundreds of settings can be tried: first some that
suit the objective, then one setting after another from the best of them, then random changes of
settings and of the place of single requests and segments in the order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.warmstart.calls_lookahead import LookAhead
from optsched.warmstart.calls_settings import Order, Settings, pause_worth_keeping_s
from optsched.warmstart.serial import serial

_MANY = 10**9
_NONE = 1e9
_STARTS: dict[Objective, tuple[Settings, ...]] = {
    Objective.MEAN_LATENCY: (
        Settings(most=40, most_share=0.8, chunk=1.5, fill_weight=10.0, margin_s=0.0),
        Settings(),
        Settings(most=32, most_share=0.8, chunk=1.5, fill_weight=10.0, memory=0.1, margin_s=2.0),
        Settings(most=24, most_attention_s=8e-3, wait=3.0, chunk=1.5),
        Settings(most=36, most_attention_s=1.2e-2, fill_weight=10.0, memory=0.1, margin_s=math.inf),
    ),
    Objective.MEAN_TTFT: (
        Settings(order=Order.FIRST, fills_alone=True, chunk=0.0, wait=0.0, margin_s=0.0),
        Settings(order=Order.FIRST, chunk=0.5, margin_s=0.0),
        Settings(order=Order.FIRST, fills_alone=True, margin_s=math.inf),
    ),
    Objective.MAX_LATENCY: (
        Settings(order=Order.LATE),
        Settings(order=Order.LATE, most=32, chunk=1.5),
        Settings(order=Order.LATE, keep_s=_NONE, chunk=2.0),
        Settings(order=Order.PATH),
        Settings(order=Order.ARRIVAL),
        Settings(),
    ),
    Objective.MAKESPAN: (
        Settings(order=Order.PATH),
        Settings(order=Order.PATH, most=24, chunk=2.0),
        Settings(order=Order.PATH, keep_s=_NONE, chunk=3.0),
        Settings(order=Order.PATH, chunk=0.2, wait=_NONE, share=1.0),
        Settings(order=Order.ARRIVAL),
        Settings(),
    ),
    Objective.GOODPUT: (
        Settings(order=Order.PRICE),
        Settings(order=Order.SLACK),
        Settings(order=Order.SLACK, margin_s=0.0, fills_alone=True),
        Settings(order=Order.PRICE, margin_s=0.0),
        Settings(order=Order.FIRST, margin_s=0.0, fills_alone=True),
        Settings(),
    ),
}
_GRID: dict[str, tuple[float, ...]] = {
    "most": (1, 2, 8, 16, 24, 32, 40, 64, _MANY),
    "chunk": (0.0, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, _NONE),
    "fade_s": (0.0, 1.0, 10.0, 100.0, _NONE),
    "wait": (0.0, 0.3, 1.0, 3.0, _NONE),
    "share": (0.85, 0.9, 0.95, 1.0, 1.05, 1.2),
    "most_share": (0.0, 0.3, 0.5, 0.7, 0.9),
    "most_attention_s": (2e-3, 5e-3, 8e-3, 1e-2, _NONE),
    "fill_weight": (0.0, 1.0, 3.0, 10.0),
    "memory": (0.0, 0.005, 0.02, 0.1),
    "swap_bias": (0.0, 0.7, 1.0, 1.5, _NONE),
    "fills_alone": (0, 1),
    "margin_s": (0.0, 0.5, 1.0, 2.0, 4.0, math.inf),
}
_KAPPA = 0.4  # price of KV to begin with, machine-seconds per second and M
_KAPPAS = (10.0, 2.0, 1.0, 0.7, 0.3, 0.15, 0.05)
_SCALED = (
    "chunk", "keep_s", "wait", "share", "most", "most_share", "fade_s", "fill_weight", "margin_s",
)  # fmt: skip
_TRIED = 400  # at most
_LEAST_TRIED = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Searched:
    """The best schedule that was found, and whether a keyboard interrupt ended the search."""

    schedule: Schedule
    interrupted: bool = False


def search_with_calls(
    instance: Instance,
    objective: Objective,
    *,
    seed: int = 0,
    deadline: float | None = None,
    tries: int | None = None,
    kappa: float = _KAPPA,
) -> Searched:
    """The best schedule that the look-ahead finds for requests with calls.

    Parameters
    ----------
    instance : Instance
        Feasible.
    deadline : float, optional
        On the monotonic clock; at least one setting is tried in any case. Without it the result
        depends on the instance and ``seed`` alone.
    tries : int, optional
        Settings that are tried, at most; by the size of the instance if not given.
    kappa : float
        Price of KV to begin with, machine-seconds for all of M over a second: the mean of a
        bound's multipliers, for instance. Others are tried, too.
    """
    look_ahead = LookAhead(instance)
    if tries is None:
        tries = min(_TRIED, max(_LEAST_TRIED, look_ahead.affordable))
    climb = _Climb(look_ahead, objective, tries, deadline)
    interrupted = False
    try:
        climb.start(_STARTS[objective], kappa)
        climb.one_by_one(tries // 2)
        climb.at_random(np.random.default_rng(seed))
    except KeyboardInterrupt:
        interrupted = True
    best = climb.best
    if best is None or math.isinf(climb.least):
        return Searched(schedule=serial(instance), interrupted=interrupted)
    return Searched(schedule=look_ahead.schedule(best), interrupted=interrupted)


class _Climb:
    """The best settings so far, and how many more may be tried."""

    def __init__(
        self, look_ahead: LookAhead, objective: Objective, tries: int, deadline: float | None
    ) -> None:
        self.look_ahead = look_ahead
        self.objective = objective
        self.left = tries
        self.deadline = deadline
        self.best: Settings | None = None
        self.least = math.inf

    def over(self) -> bool:
        """Whether nothing more may be tried; the first may always be."""
        if self.best is None:
            return False
        late = self.deadline is not None and time.monotonic() > self.deadline
        return self.left <= 0 or late

    def tried(self, settings: Settings) -> bool:
        """Try settings; whether they are the best so far."""
        self.left -= 1
        loss = self.look_ahead.loss(settings, self.objective)
        if self.best is not None and not loss < self.least:
            return False
        self.best, self.least = settings, loss
        return True

    def start(self, starts: tuple[Settings, ...], kappa: float) -> None:
        """Try all of ``starts``, at this price of KV but for those that always keep it."""
        keep_s = pause_worth_keeping_s(self.look_ahead.instance, kappa)
        for settings in starts:
            if self.over():
                return
            kept = settings.keep_s if settings.keep_s == _NONE else keep_s
            self.tried(replace(settings, keep_s=kept))

    def one_by_one(self, least_left: int) -> None:
        """Change one setting at a time until none is better or few tries are left."""
        instance, gain = self.look_ahead.instance, True
        kept = (0.0, *(pause_worth_keeping_s(instance, k) for k in _KAPPAS), _NONE)
        while gain:
            gain = False
            for name, values in {**_GRID, "keep_s": kept}.items():
                for value in values:
                    if self.over() or self.left <= least_left:
                        return
                    assert self.best is not None
                    if getattr(self.best, name) != value:
                        gain |= self.tried(replace(self.best, **{name: value}))  # type: ignore[arg-type]

    def at_random(self, rng: np.random.Generator) -> None:
        """Change settings and the order at random for as long as tries are left."""
        while not self.over():
            assert self.best is not None
            self.tried(next(_changes(self.best, self.look_ahead, rng)))


def _changes(
    settings: Settings, look_ahead: LookAhead, rng: np.random.Generator
) -> Iterator[Settings]:
    """Random changes of one setting, or of the place of requests or segments in the order."""
    shape = look_ahead.shape
    segments = shape.made.size
    spread = look_ahead.spread_s
    if rng.random() < 0.3:
        name = _SCALED[rng.integers(len(_SCALED))]
        value = getattr(settings, name) * float(np.exp(rng.normal(0.0, 0.25)))
        if name == "most":
            value = max(1, round(min(value, _MANY)))
        yield replace(settings, **{name: value})
        return
    offset = np.zeros(segments) if settings.offset is None else settings.offset.copy()
    size = spread * float(rng.choice([0.1, 0.5, 2.0]))
    if rng.random() < 0.5:
        i = int(rng.integers(shape.prompt.size))
        offset[shape.begin[i] : shape.begin[i + 1]] += rng.normal(0.0, size)
    else:
        some = rng.integers(segments, size=1 + int(rng.integers(1 + segments // 10)))
        np.add.at(offset, some, rng.normal(0.0, size, some.size))
    yield replace(settings, offset=offset)
