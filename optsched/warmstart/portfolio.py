"""Look-ahead schedulers as a whole: each tries its settings and keeps the shortest schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from optsched.instance import Instance, require_feasible
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart.backward import BackwardOptions, Clock, backward
from optsched.warmstart.groups import Preference, grouped
from optsched.warmstart.lookahead import LookAheadOptions, look_ahead
from optsched.warmstart.loop import run
from optsched.warmstart.refusal import require_no_calls
from optsched.warmstart.rounds import rounds
from optsched.warmstart.searched import beams, searched, walks
from optsched.warmstart.settings import settings
from optsched.warmstart.start_rates import RateGate, start_rates
from optsched.warmstart.table import RULES

Schedules = Iterator[Schedule]
PORTFOLIO = "portfolio"
_KAPPAS = (0.0, 0.1, 0.3, 0.6, 1.0)
_AHEAD = (0.5, 4.0)
_MOST_TYPES = 16
_WAVES = (1, 2, 3, 4)
# Seconds between arrival and start below which the order of arrivals decides.
_MARGIN_S = 100.0
_DUE_WIDTH = 300
_RULES = ("sarathi", "sarathi-pc-ef", "mc-fcfs", "mc-sf", "vllm", "pair")
_RULES_WITH_ARRIVALS = ("sarathi", "sarathi-pc-ef")


@dataclass(frozen=True)
class LookAheadScheduler:
    """A family of schedules as a :class:`Scheduler`: the one with the least makespan.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    family : callable
        Yields schedules; always at least one.
    """

    name: str
    summary: str
    family: Callable[[Instance], Schedules]

    def __call__(self, instance: Instance, /) -> Schedule:
        """The shortest schedule of the family; the first of equals.

        Raises
        ------
        UnsupportedError
            A request makes calls.
        InfeasibleError
            A request cannot run even alone.
        """
        require_no_calls(instance, self.name)
        require_feasible(instance)
        return min(self.family(instance), key=lambda s: simulate(instance, s).makespan_s)


def _look_ahead(instance: Instance) -> Schedules:
    yield look_ahead(instance, LookAheadOptions()).schedule(instance)


def _staggered(instance: Instance) -> Schedules:
    for kappa in _KAPPAS:
        yield look_ahead(instance, LookAheadOptions(kappa=kappa)).schedule(instance)


def _backward(instance: Instance) -> Schedules:
    for base in _bases(instance):
        yield backward(instance, base).schedule(instance)


def _bases(instance: Instance) -> Iterator[BackwardOptions]:
    """Options for each preference and decode room that is tried.

    With arrivals the order is by the earliest possible end, and the clock is that of the same
    placement without arrivals.
    """
    tried = settings(instance)
    if instance.offline:
        preferences = [Preference.LONG_OUTPUT, Preference.MIXED]
        if not tried.large:
            preferences.append(Preference.LARGE_AREA)
        if len(set(zip(instance.prompt_tokens, instance.output_tokens, strict=True))) == 1:
            preferences = preferences[:1]
        for preference in preferences:
            for room in tried.decode_rooms:
                yield BackwardOptions(preference=preference, decode_room=room)
        return
    room = tried.decode_rooms[-1]
    free = BackwardOptions(preference=Preference.MIXED, decode_room=room)
    trace = simulate(_at_once(instance), backward(instance, free).schedule(instance))
    clock = Clock(
        makespan_s=max(trace.makespan_s, float(instance.release_s.max())),
        batch_s=trace.makespan_s / trace.end_s.size,
        margin_s=_MARGIN_S,
    )
    for room in tried.decode_rooms:
        yield BackwardOptions(
            preference=Preference.LATE, decode_room=room, width=_DUE_WIDTH, clock=clock
        )


def _at_once(instance: Instance) -> Instance:
    """The same requests, all there from the start."""
    requests = tuple(msgspec.structs.replace(r, arrival_s=0.0) for r in instance.requests)
    return Instance(
        name=instance.name, limits=instance.limits, cost=instance.cost, requests=requests
    )


def _chunked(instance: Instance) -> Schedules:
    """Batches below a knot take prompt tokens of later ones; without knots fills stay whole."""
    levels = settings(instance).levels or (None,)
    for base in _bases(instance):
        for level in levels:
            yield backward(instance, replace(base, level=level)).schedule(instance)


def _capped(instance: Instance) -> Schedules:
    """Full batches leave room to as many decodes as run: by memory, or by their share of tokens."""
    tried = settings(instance)
    rooms = tried.decode_rooms
    prompt, output = int(instance.prompt_tokens.sum()), int(instance.output_tokens.sum())
    for base in _bases(instance):
        if base.decode_room != rooms[-1]:
            continue
        for cap in tried.caps:
            share = min(cap - 1, cap * (output - len(instance)) // (prompt + output) + 1)
            for room in sorted({min(rooms[len(rooms) // 2], share), share}):
                options = replace(base, batch_tokens=cap, chunked=True, decode_room=room)
                yield backward(instance, options).schedule(instance)
        if tried.large:
            return


def _gated(instance: Instance) -> Schedules:
    patience = settings(instance).patience or (0,)
    for base in _bases(instance):
        for free in patience:
            yield backward(instance, replace(base, patience=free)).schedule(instance)


def _lp_guided(instance: Instance) -> Schedules:
    """Equal requests, many sizes and arrivals need no rates: the backward order serves them."""
    base = list(_bases(instance))[-1 if not instance.offline else 0]
    if instance.offline:
        room = settings(instance).decode_rooms[-1]
        base = replace(base, preference=Preference.LONG_OUTPUT, decode_room=room)
    groups = grouped(instance, base.preference, base.clock.batch_s if base.clock else 0.0)
    plain = backward(instance, base, groups).schedule(instance)
    yield plain
    if not (instance.offline and 2 <= len(groups) <= _MOST_TYPES):
        return
    for spare in settings(instance).spare_tokens:
        rates = start_rates(instance, groups, plain.batch_count, spare, base.decode_room)
        if rates is not None:
            for ahead in _AHEAD:
                gate = RateGate(rates, ahead)
                yield backward(instance, base, groups, gate).schedule(instance)


def _rounds(instance: Instance) -> Schedules:
    sizes = sorted({-(-len(instance) // waves) for waves in _WAVES})
    for cap in settings(instance).caps:
        for most in sizes:
            yield rounds(instance, cap, most, Preference.LONG_OUTPUT)


def _beam(instance: Instance) -> Schedules:
    """Where the search does not apply: plain look-ahead."""
    found = list(beams(instance))
    yield from found or _look_ahead(instance)


def _walk_guided(instance: Instance) -> Schedules:
    found = list(walks(instance))
    yield from found or _look_ahead(instance)


def _best(instance: Instance) -> Schedules:
    tried = settings(instance)
    families = [_lp_guided]
    families += [_chunked] if tried.levels else [_backward]
    families += [_gated] if tried.patience else []
    rules: tuple[str, ...] = _RULES
    if tried.large:
        rules = () if instance.offline else _RULES_WITH_ARRIVALS
    else:
        families += [_look_ahead, _staggered, _capped, _rounds, searched]
    for family in families:
        yield from family(instance)
    for name in rules:
        yield run(instance, RULES[name])


LOOK_AHEAD: dict[str, LookAheadScheduler] = {
    name: LookAheadScheduler(name, summary, family)
    for name, summary, family in (
        ("look-ahead", "admits whoever fits in memory to the end, past those who do not",
         _look_ahead),
        ("staggered", "look-ahead that keeps the profile of a steady state", _staggered),
        ("look-ahead-backward", "look-ahead from the last batch to the first", _backward),
        ("lp-guided", "backward look-ahead at the start rates of a linear program", _lp_guided),
        ("look-ahead-chunked", "backward look-ahead with prompt chunks in batches below a knot",
         _chunked),
        ("token-cap", "backward look-ahead in batches of the cheapest size per token", _capped),
        ("gated-prefill", "backward look-ahead in which fills share batches", _gated),
        ("rounds", "fills whole rounds of requests, holds them, then decodes them together",
         _rounds),
        ("beam", "beam search over what is resident and what waits, evictions included", _beam),
        ("walk-guided", "follows the optimal closed walks over memory contents", _walk_guided),
        (PORTFOLIO, "the best of the look-ahead schedulers and of the strongest rules", _best),
    )
}  # fmt: skip
