"""Schedulers and bounds first, then the formulations that the plan names, until they meet."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from optsched import __version__
from optsched.bounds import best_bound, certificate_of
from optsched.errors import OptschedError, UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.io import write_certificate
from optsched.result import OPTIMAL_GAP, Result
from optsched.solve.compare import Candidate, assess, evaluate
from optsched.solve.plan import Plan, plan
from optsched.solve.program import program
from optsched.solve.search import Search, SolveOptions
from optsched.solve.stage import run_stage
from optsched.solvers import require_solver
from optsched.solvers.outcome import require_threads
from optsched.solvers.write import write_model
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import PORTFOLIO
from optsched.warmstart.serial import serial
from optsched.warmstart.table import RULES

_PRICED_SHARE = 0.1  # of the time, where a formulation comes after the priced bounds


def solve(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    known: Sequence[Candidate] = (),
    report: Callable[[str], None] = lambda _: None,
) -> Result:
    """The best schedule that can be found for ``instance``, and what is proven about it.

    Schedulers give a first schedule and the combinatorial bounds a first bound; where they do not
    meet, the formulations of :func:`~optsched.solve.plan.plan` are solved. Nothing is called
    optimal unless the makespan of a checked and re-timed schedule meets a proven bound. A
    keyboard interrupt ends it with the best so far.

    Parameters
    ----------
    known : sequence of Candidate
        Schedules to start from, beside those that ``options.warm_start`` names.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    UnknownNameError
        An unknown policy, formulation, scheduler or solver.
    UnsupportedError
        A formulation was asked for that does not cover the instance.
    SolverError
        The solver is missing, or its answers contradict themselves.
    """
    options = options or SolveOptions()
    begin = time.monotonic()
    # What does not exist is refused now, not after the schedulers have run.
    require_solver(options.solver)
    require_threads(options.threads)
    if options.warm_start not in ("best", "none", "given"):
        scheduler(options.warm_start)
    chosen = plan(instance, options.formulation, options.policies)
    require_feasible(instance, options.policies)
    search = Search(
        instance=instance, options=options, scope=chosen.scope, report=report,
        deadline=begin + options.time_limit_s,
    )  # fmt: skip
    used: list[str] = []
    solver_name: str | None = None
    try:
        _quick_bound(search)
        _schedulers(search, known, rules=bool(chosen.stages))
        share = _PRICED_SHARE if chosen.stages else 1.0
        _priced_bound(search, share * search.remaining_s)
        if options.write_model is not None:
            _write_model(search, chosen, options.write_model)
        for index, stage in enumerate(chosen.stages):
            if search.closed or search.interrupted or search.remaining_s <= 0:
                break
            more = len(chosen.stages) - index - 1
            outcome = run_stage(search, stage, search.remaining_s / (2 if more else 1))
            used.append(stage.name)
            solver_name = outcome.solver if outcome else solver_name
    except KeyboardInterrupt:
        search.interrupted = True
        _fall_back(search)
    if options.certificate is not None and search.proven is not None:
        write_certificate(certificate_of(instance, search.proven), options.certificate)
    return _result(search, chosen, used, solver_name, time.monotonic() - begin)


def _quick_bound(search: Search) -> None:
    begin = time.monotonic()
    search.tell("bounds")
    search.proven = best_bound(search.instance, effort="quick")
    bound = search.proven.bound
    search.least_batches = bound.batches
    search.prove(bound.value_s, bound.proof)
    search.record(bound.proof, begin, bound=bound.value_s)


def _schedulers(search: Search, known: Sequence[Candidate], *, rules: bool) -> None:
    """Offer what is known and what schedulers find; ``rules`` asks for more than the portfolio."""
    begin = time.monotonic()
    for candidate in known:
        search.offer(candidate)
    for name in _warm_starts(search.options.warm_start, search.instance, rules=rules):
        if search.closed or search.remaining_s <= 0:
            break
        search.tell(f"scheduler {name}")
        begun = time.monotonic()
        try:
            search.offer(evaluate(search.instance, name))
        except OptschedError as error:
            if search.options.warm_start != "best":
                raise
            # One of many that fails takes nothing from the others.
            search.record(name, begun, termination="failed", note=error.message)
    _fall_back(search)
    note = search.best.name if search.best else "none knows calls yet"
    search.record("schedulers", begin, value=search.value, note=note)


def _fall_back(search: Search) -> None:
    """One request after another obeys every policy: there is always a schedule."""
    if not search.candidates and not search.instance.has_calls:
        search.offer(assess(search.instance, serial(search.instance), "serial"))


def _priced_bound(search: Search, time_limit_s: float) -> None:
    """The bounds whose prices a linear program finds, unless value and bound have met."""
    effort = search.options.effort
    if search.closed or search.instance.has_calls or time_limit_s <= 0 or effort == "quick":
        return
    begin = time.monotonic()
    search.tell("priced bounds")
    # Of a policy's schedules only those above the bound matter, and they are longer still.
    found = best_bound(
        search.instance, effort=effort, time_limit_s=time_limit_s, target_s=search.value
    )
    if found.bound.value_s > search.proven_s:
        search.proven = found
        search.prove(found.bound.value_s, found.bound.proof)
    search.record("priced bounds", begin, bound=found.bound.value_s, note=found.bound.proof)


def _write_model(search: Search, chosen: Plan, path: Path) -> None:
    if not chosen.stages:
        raise UnsupportedError(f"there is no model to write: {chosen.reason}")
    write_model(program(search, chosen.stages[0]).milp, path)


def _warm_starts(warm_start: str, instance: Instance, *, rules: bool) -> list[str]:
    if warm_start in ("none", "given"):
        return []
    if warm_start != "best":
        return [warm_start]
    if instance.has_calls:
        return []
    return [*(RULES if rules else ()), PORTFOLIO]


def _result(
    search: Search, chosen: Plan, used: list[str], solver_name: str | None, wall_s: float
) -> Result:
    best, options = search.best, search.options
    termination = "finished"
    if search.gap is not None and search.gap <= OPTIMAL_GAP:
        pass
    elif search.closed:
        termination = "gap-reached"
    elif any(step.termination == "failed" for step in search.steps):
        termination = "failed"
    elif search.interrupted:
        termination = "interrupted"
    elif search.remaining_s <= 0 or any(s.termination == "time-limit" for s in search.steps):
        termination = "time-limit"
    return Result(
        instance=search.instance.name, digest=search.instance.digest, objective="makespan",
        value=search.value, bound=search.bound, proof=search.proof, scope=search.scope,
        policies=options.policies, termination=termination, wall_s=wall_s,
        formulation=" + ".join(used) or None, reason=chosen.reason, solver=solver_name,
        schedule=best.schedule if best else None, found_by=best.name if best else None,
        options={
            "formulation": options.formulation, "solver": options.solver,
            "effort": options.effort,
            "time_limit_s": options.time_limit_s, "relative_gap": options.relative_gap,
            "seed": options.seed, "threads": options.threads, "warm_start": options.warm_start,
        },
        versions={
            "python": platform.python_version(),
            "optsched": __version__,
            **{name: metadata.version(name) for name in ("numpy", "highspy")},
        },
        steps=tuple(search.steps),
    )  # fmt: skip
