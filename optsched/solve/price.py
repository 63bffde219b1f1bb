"""What each policy costs: the optimum under it beside the optimum over all schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.result import Result
from optsched.solve.candidate import assess
from optsched.solve.search import SolveOptions
from optsched.solve.solve import solve


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyPrice:
    """A policy's result and what it costs against the optimum over all schedules.

    Parameters
    ----------
    policy : str or None
        None for no policy.
    value, bound : float or None
        Of the best schedule under the policy, in the objective's unit. A bound over all schedules
        holds under every policy, and a policy's schedule is one of all schedules, so each is the
        better of what the policy's own solve and the others gave.
    least_price, most_price : float or None
        The price as a fraction of the optimum over all schedules: it is between these, which are
        equal up to rounding if both optima are proven.
    infeasible : str or None
        Why no schedule obeys the policy.
    """

    policy: str | None
    value: float | None
    bound: float | None
    optimal: bool
    least_price: float | None
    most_price: float | None
    infeasible: str | None = None
    result: Result | None = None


def policies_of(instance: Instance) -> tuple[str, ...]:
    """The policies that restrict anything on ``instance``."""
    names = ["no-evict", "no-chunk", "no-hybrid", "no-hold"]
    if instance.limits.host_kv_tokens:
        names.append("no-swap")
    if instance.has_calls:
        names += ["preserve", "discard"]
        names += ["swap"] if instance.limits.host_kv_tokens else []
    if not instance.offline:
        names.append("fcfs")
    return (*names, "nonpreemptive")


def policy_prices(
    instance: Instance, policies: Sequence[str], options: SolveOptions,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[PolicyPrice, ...]:  # fmt: skip
    """No policy first, then each of ``policies``; ``options.time_limit_s`` is for each solve.

    Raises
    ------
    UnknownNameError
        An unknown policy.
    """
    free = solve(instance, replace(options, policies=()), report=report)
    found: dict[str, Result | InfeasibleError] = {}
    best, objective, interrupted = free, options.objective, free.interrupted
    for policy in policies:
        if interrupted:
            break
        known = [assess(instance, best.schedule, "no policy")] if best.schedule else []

        def named(text: str, policy: str = policy) -> None:
            report(f"{policy}: {text}")

        try:
            result = solve(
                instance, replace(options, policies=(policy,)), known=known, report=named
            )
        except InfeasibleError as error:
            found[policy] = error
            continue
        found[policy], interrupted = result, result.interrupted
        if result.value is not None and (
            best.value is None or objective.better(result.value, best.value)
        ):
            best = replace(free, value=result.value, schedule=result.schedule)
    rows = [_row(None, best, best, objective)]
    for policy, outcome in found.items():
        if isinstance(outcome, InfeasibleError):
            rows.append(_infeasible(policy, outcome))
        else:
            rows.append(_row(policy, outcome, best, objective))
    return tuple(rows)


def _row(policy: str | None, result: Result, free: Result, objective: Objective) -> PolicyPrice:
    bound = result.bound
    if free.bound is not None and (bound is None or objective.better(bound, free.bound)):
        bound = free.bound
    shown = replace(result, bound=bound)
    worse = -1.0 if objective.maximised else 1.0

    def price(restricted: float | None, unrestricted: float | None) -> float | None:
        if restricted is None or not unrestricted:
            return None
        return max(0.0, worse * (restricted - unrestricted) / unrestricted)

    return PolicyPrice(
        policy=policy, value=result.value, bound=bound, optimal=shown.optimal,
        least_price=None if policy is None else price(bound, free.value),
        most_price=None if policy is None else price(result.value, free.bound),
        result=result,
    )  # fmt: skip


def _infeasible(policy: str, error: InfeasibleError) -> PolicyPrice:
    return PolicyPrice(
        policy=policy, value=None, bound=None, optimal=False, least_price=None, most_price=None,
        infeasible=str(error),
    )  # fmt: skip
