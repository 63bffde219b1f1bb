"""Exhaustive search for the best schedule of a tiny instance, with arithmetic of its own.

A state holds, for every request, m (tokens with KV on the GPU), w (tokens with KV on the host), g
(tokens generated) and, where a policy fixes how calls are handled, what its KV has met with since
the last call. An arc is one batch: every request idles (and so holds what it has), is evicted,
swapped out or in, or processes any c from 1 to s - m tokens. A label is a way to reach a state: the
time, what the objective has cost so far, when calls return and, for goodput, by when each request
must finish. Labels are settled best first, and one is dropped if another one at its state is at
least as good whatever follows (:mod:`tests.oracle_accounts`).

Only the coefficients and limits are read from the records; nothing of the checker, the simulator
or a formulation is used, so that the oracle can be held against all of them.

What makes it fast enough for hundreds of instances, none of which changes the optimum (``prune``
turns off 2 to 5; each proof stands where the rule is used):

1. The batches that leave a state are enumerated as arrays, one request after another.
2. Requests that nothing tells apart are interchangeable: states are kept sorted.
3. A* with lower bounds on what is still to come (:mod:`tests.oracle_bounds`).
4. A schedule found by diving bounds the search from above.
5. Labels are compared by what can follow, and not only number by number.

Deliberate waiting is not covered: a batch starts at the latest of the end of the batch before it
and the arrivals and call returns of what it processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.errors import UnknownNameError
from optsched.handling import handling_of
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from tests.oracle_accounts import account_of
from tests.oracle_search import search
from tests.oracle_space import Space

POLICIES = frozenset(
    {"no-evict", "no-chunk", "no-hybrid", "no-hold", "fcfs", "no-swap", "nonpreemptive"}
)


def optimum(
    instance: Instance,
    policies: Sequence[str] = (),
    *,
    objective: str = Objective.MAKESPAN,
    prune: bool = True,
    most_states: int = 2_000_000,
) -> tuple[float, Schedule]:
    """The best value of any schedule that the policies allow, and a schedule that has it.

    Parameters
    ----------
    instance : Instance
        At most some 4 requests.
    policies : sequence of str
        Any of :data:`POLICIES`, and ``preserve``, ``discard`` and ``swap``, of all calls or, as in
        ``swap:r1``, of those of one request. ``nonpreemptive`` is whole fills, and nothing but
        processing of a request that has begun, other than while it waits for a call.
    objective : str
        One of :class:`~optsched.objective.Objective`.
    prune : bool
        False: plain search over the unsorted states, to hold the pruned search against.
    most_states : int
        Give up after this many expansions.

    Returns
    -------
    value : float
        Seconds; for ``goodput`` the weight of the requests that meet all their SLOs, the largest
        of any schedule that completes every request.
    schedule : Schedule
        One that has this value.

    Raises
    ------
    InfeasibleError
        No schedule exists under these policies.
    UnknownNameError
        A policy or an objective that the search does not know.
    UnsupportedError
        More states than ``most_states``.
    """
    for name in policies:
        if name not in POLICIES and handling_of(name) is None:
            raise UnknownNameError("policy of the oracle", name, POLICIES)
    if objective not in list(Objective):
        raise UnknownNameError("objective", objective, [each.value for each in Objective])
    goodput = objective == Objective.GOODPUT
    space = Space(instance, frozenset(policies), prune, by_service=goodput)
    account = account_of(Objective(objective), space)
    label, schedule = search(space, account, most_states)
    return account.value(label), schedule
