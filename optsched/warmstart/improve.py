"""Local improvement: a known schedule is placed again in its own order, then in orders like it.

What a schedule decides about memory is when each request ends. From these times ``levelled`` places
all tokens anew, no request ending earlier than in the known schedule: fills move from batches above
a knot to batches below it, batches get the same number of tokens, and what a batch held in vain is
used, so that batches vanish. The placement follows the known one, so it is seldom worse.

Large instances are placed by ``backward`` instead, which carries prompt tokens no further than
batches below a knot need them.

Then the order is changed a little and all is placed again: a block of requests moves, is shuffled,
or two requests change places, or a stretch of batches lets its requests end sooner or later. What
is no worse is kept. The changes are drawn with a fixed seed, and without a time limit as many are
tried as the size of the instance allows in seconds, so the result depends on the instance alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.schedule import MOST, Schedule
from optsched.simulate import loads, simulate
from optsched.warmstart.backward import BackwardOptions, backward
from optsched.warmstart.budget import Budget, backward_s, batches_about, levelled_s
from optsched.warmstart.groups import Groups
from optsched.warmstart.levelled import LevelOptions, Openings, levelled
from optsched.warmstart.refusal import require_no_calls
from optsched.warmstart.settings import settings

Options = LevelOptions | BackwardOptions
Schedules = Iterator[Schedule]
# Batches that a request may end later than in the known schedule; any number at last.
_LEADS = (0, 3, 20, MOST)
# Divisors of a batch: what decodes leave to fills, and the least chunk of these.
_SHARES = ((4, 4096), (4, 20))
_RESERVE = 4  # knots
_WORK = 200_000  # requests and batches placed by all changes together
_MOST_CHANGES = 300
_PASSES = 3
_NEAR = 1.01  # of the best known: what is further from it is not followed
_SPANS = (2, 5, 20, 60, 200)


def improve(
    instance: Instance, schedule: Schedule, *, time_limit_s: float | None = None
) -> Schedule:
    """The shortest schedule found near ``schedule``, or that itself.

    Parameters
    ----------
    schedule : Schedule
        Complete; the new placements evict nobody.
    time_limit_s : float, optional
        No placement is begun that is expected to exceed it.

    Raises
    ------
    UnsupportedError
        A request makes calls.
    ScheduleError
        The schedule breaks a rule.
    """
    require_no_calls(instance, "improve")
    best = schedule
    for better in improvements(instance, [schedule], Budget(time_limit_s)):
        best = better
    return best


def improvements(
    instance: Instance, schedules: Sequence[Schedule], budget: Budget
) -> Iterator[Schedule]:
    """Ever shorter schedules, the first of them shorter than all of ``schedules``.

    All of these are placed again, and the order of the best placement is changed.
    """
    search = _Search(instance, budget)
    for schedule in schedules:
        search.start(schedule)
    for schedule in schedules:
        yield from search.place_again(schedule)
    yield from search.change()


class _Search:
    """The least makespan so far, and the placement that comes closest to it."""

    def __init__(self, instance: Instance, budget: Budget) -> None:
        self.instance = instance
        self.least_s = np.inf
        self._budget = budget
        self._levelled_s, self._backward_s = levelled_s(instance), backward_s(instance)
        # A request that ends later in the order of placement may start before it arrives.
        self._leads = _LEADS if instance.offline else _LEADS[:1]
        self._nearest: tuple[float, Options, Openings] | None = None

    def start(self, schedule: Schedule) -> None:
        """A known schedule, which others must beat."""
        self.least_s = min(self.least_s, simulate(self.instance, schedule).makespan_s)

    def place_again(self, schedule: Schedule) -> Schedules:
        """The order of ``schedule`` at every size of a batch, and every lead over its ends; then
        the best of these again while that helps."""
        sizes: list[Options] = list(variants(self.instance))
        for _ in range(_PASSES if sizes else 0):
            known = openings_of(self.instance, schedule)
            best: tuple[float, Schedule, Options] | None = None
            for options in sizes:
                for lead in self._leads if isinstance(options, LevelOptions) else _LEADS[:1]:
                    openings = Openings(order=known.order, slots=np.maximum(known.slots - lead, 0))
                    placed = self._placed(options, openings)
                    if placed is None:
                        return
                    if best is None or placed[0] < best[0]:
                        best = (*placed, options)
                    if placed[0] < self.least_s:
                        self.least_s = placed[0]
                        yield placed[1]
            assert best is not None
            worth = self._nearest is None or best[0] < self._nearest[0]
            if not worth or best[0] > self.least_s * _NEAR:
                return
            schedule, sizes = best[1], [best[2]]
            self._nearest = (best[0], best[2], openings_of(self.instance, schedule))

    def change(self) -> Schedules:
        """Change the order of the best placement a little, again and again."""
        if self._nearest is None:
            return
        current_s, options, openings = self._nearest
        if current_s > self.least_s * _NEAR or not isinstance(options, LevelOptions):
            return
        rng = np.random.default_rng(0)
        uniform = len({(r.prompt_tokens, r.output_tokens) for r in self.instance.requests}) == 1
        work = len(self.instance) + batches_about(self.instance)
        for _ in range(min(_WORK // work, _MOST_CHANGES, 2 * len(self.instance))):
            tried = _changed(openings, rng, reorder=not uniform)
            placed = self._placed(options, tried)
            if placed is None:
                return
            if placed[0] <= current_s:
                current_s, openings = placed[0], tried
            if placed[0] < self.least_s:
                self.least_s = placed[0]
                yield placed[1]

    def _placed(self, options: Options, openings: Openings) -> tuple[float, Schedule] | None:
        """A placement and its makespan in seconds; None if there is no time for it."""
        each_s = self._levelled_s if isinstance(options, LevelOptions) else self._backward_s
        if not self._budget.allows(each_s):
            return None
        with self._budget.timed(each_s):
            if isinstance(options, LevelOptions):
                schedule = levelled(self.instance, options, openings)
            else:
                groups = _one_by_one(self.instance, openings.order)
                schedule = backward(self.instance, options, groups).schedule(self.instance)
            return simulate(self.instance, schedule).makespan_s, schedule


def openings_of(instance: Instance, schedule: Schedule) -> Openings:
    """When the requests of a schedule end, from its last batch on."""
    last = loads(instance, schedule).last_token_batch
    order = np.argsort(-last, kind="stable")
    return Openings(order=order, slots=schedule.batch_count - last[order])


def variants(instance: Instance) -> Iterator[Options]:
    """How to fill batches; in large instances only to raise batches to a knot, and with arrivals
    not even that, because a placement knows no clock."""
    tried = settings(instance)
    if tried.large:
        for level in tried.levels if instance.offline else ():
            yield BackwardOptions(level=level, decode_room=tried.decode_rooms[-1])
        return
    for size in tried.batch_sizes:
        for share, chunk in _SHARES:
            yield LevelOptions(
                batch_tokens=size, fill_tokens=-(-size // share), least_chunk=max(1, size // chunk)
            )
    for knot in tried.levels:
        size = instance.limits.batch_tokens
        yield LevelOptions(
            batch_tokens=size, fill_tokens=-(-size // 4), floor_tokens=knot,
            reserve_tokens=_RESERVE * knot,
        )  # fmt: skip


def _one_by_one(instance: Instance, order: IntArray) -> Groups:
    """Every request as a group of its own, in this order."""
    return Groups(
        prompt=instance.prompt_tokens[order], output=instance.output_tokens[order],
        members=tuple((request,) for request in order.tolist()),
    )  # fmt: skip


def _changed(openings: Openings, rng: np.random.Generator, *, reorder: bool) -> Openings:
    """One change: of the order if ``reorder``, and sometimes of the ends."""
    order, slots = openings.order, openings.slots
    count = order.size
    span = int(rng.choice(_SPANS))
    first = int(rng.integers(count))
    kind = rng.random() if reorder else 1.0
    if kind < 0.4:
        order = _moved(order, first, span, int(rng.integers(-4 * span, 4 * span + 1)))
    elif kind < 0.6:
        order = order.copy()
        rng.shuffle(order[first : first + span])
    elif kind < 0.8:
        order = order.copy()
        other = int(np.clip(first + rng.integers(-200, 201), 0, count - 1))
        order[[first, other]] = order[[other, first]]
    else:
        slots = slots.copy()
        slots[first : first + span] += int(rng.integers(-span, span + 1))
        slots = np.maximum.accumulate(np.maximum(slots, 0))
    return Openings(order=order, slots=slots)


def _moved(order: IntArray, first: int, span: int, by: int) -> IntArray:
    """``order`` with a block of up to ``span`` from ``first`` on moved by so many places."""
    block, rest = order[first : first + span], np.delete(order, np.s_[first : first + span])
    at = int(np.clip(first + by, 0, rest.size))
    return np.concatenate([rest[:at], block, rest[at:]])
