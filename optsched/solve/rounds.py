"""Mean latency without preemption in batches that all take equally long: the hindsight problem.

Annealed schedules, a Lagrangian bound far above that of the time-indexed program, and for few
requests a search that its prices guide; see :mod:`optsched.model.hindsight`.
"""

from __future__ import annotations

import time

from optsched.bounds.hindsight import hindsight_bound
from optsched.bounds.hindsight_search import search as look
from optsched.errors import UnsupportedError
from optsched.model.hindsight import applies, rounds_of
from optsched.objective import Objective
from optsched.solve.candidate import assess
from optsched.solve.search import Search
from optsched.warmstart.annealed import annealed

_MOST_SEARCHED = 16  # requests, of which more are out of reach
_ANNEALING_SHARE, _BOUND_SHARE, _SEARCH_SHARE = 0.15, 0.5, 0.8  # of the time left


def in_rounds(search: Search) -> None:
    """Add to ``search`` what rounds find and prove, if they are its problem."""
    instance, objective = search.instance, search.objective
    ours = objective is Objective.MEAN_LATENCY and not search.options.subject_to
    if not ours or not applies(instance, search.policies, objective).holds or search.closed:
        return
    try:
        _in_rounds(search)
    except UnsupportedError as error:
        # Too many rounds, or other limits than KV bind: the program covers them.
        search.record("rounds", time.monotonic(), termination="skipped", note=error.message)


def _in_rounds(search: Search) -> None:
    instance = search.instance
    begin = time.monotonic()
    search.tell("annealing")
    schedule = annealed(
        instance, seed=search.options.seed, deadline=begin + _ANNEALING_SHARE * search.remaining_s
    )
    search.offer(assess(instance, schedule, "annealed", time.monotonic() - begin))
    search.record("annealed", begin, value=search.value)
    rounds_s = rounds_of(instance).round_s / len(instance)  # of the mean, per round of the sum
    assert search.value is not None
    known = round(search.value / rounds_s)
    begin = time.monotonic()
    search.tell("state-path Lagrangian")
    bound = hindsight_bound(instance, time_limit_s=_BOUND_SHARE * search.remaining_s, target=known)
    search.prove(bound.value_s, "state-path Lagrangian")
    search.record("state-path Lagrangian", begin, bound=bound.value_s)
    if search.closed or len(instance) > _MOST_SEARCHED:
        return
    begin = time.monotonic()
    search.tell("search over rounds")
    found = look(bound, known=known, time_limit_s=_SEARCH_SHARE * search.remaining_s)
    if found.schedule is not None:
        search.offer(assess(instance, found.schedule, "search over rounds"))
    search.prove(found.bound * rounds_s, "search over rounds")
    search.record(
        "search over rounds", begin, value=found.total * rounds_s,
        bound=found.bound * rounds_s, note=f"{found.nodes} nodes",
        termination="finished" if found.proven else "time-limit",
    )  # fmt: skip
