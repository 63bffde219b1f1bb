"""Schedulers and bounds first, then the formulations that the plan names, until they meet."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import msgspec

from optsched import __version__
from optsched.bounds import lower_bound
from optsched.check import handlings
from optsched.errors import OptschedError, UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.io import write_certificate
from optsched.result import OPTIMAL_GAP, Result, Target, Tie
from optsched.solve.candidate import Candidate, assess, evaluate
from optsched.solve.known import known_schedules
from optsched.solve.labelled import run_labels
from optsched.solve.plan import LABELS, Plan, Stage, in_force, plan
from optsched.solve.program import program
from optsched.solve.proven import Proven, prove
from optsched.solve.rounds import in_rounds
from optsched.solve.search import Search, SolveOptions
from optsched.solve.stage import run_stage
from optsched.solvers import require_solver
from optsched.solvers.outcome import require_threads
from optsched.solvers.write import write_model
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import StoppedEarly
from optsched.warmstart.serial import serial
from optsched.warmstart.table import RULES

_FAST_RULE = "sarathi-pc-ef"
_LEAST_TIE_S = 1.0  # for the second objective, however long the first one took
_SCHEDULERS_SHARE = 0.5  # of the time left, for one that tries many schedules
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
    optimal unless the value of a checked and re-timed schedule meets a proven bound. A
    keyboard interrupt ends it with the best so far. With ``options.then`` what is left of the
    time goes to the second objective, over the schedules as good as the best one found.

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
    result = _solve(instance, options, known, report)
    if options.then is None or result.value is None or result.schedule is None:
        return result
    if result.interrupted:
        return result
    left = options.time_limit_s - (time.monotonic() - begin)
    return _break_ties(instance, options, result, left, report)


def _break_ties(
    instance: Instance, options: SolveOptions, first: Result, time_limit_s: float,
    report: Callable[[str], None],
) -> Result:  # fmt: skip
    """``first`` with its schedule replaced by one that the second objective prefers."""
    assert options.then is not None
    assert first.value is not None
    assert first.schedule is not None
    slack = OPTIMAL_GAP * abs(first.value) * (-1 if options.objective.maximised else 1)
    second = _solve(
        instance,
        replace(
            options, objective=options.then, then=None, target=None, certificate=None,
            write_model=None, time_limit_s=max(time_limit_s, _LEAST_TIE_S),
            subject_to={**options.subject_to, options.objective: first.value + slack},
        ),
        [assess(instance, first.schedule, first.found_by or "first")],
        report,
    )  # fmt: skip
    assert second.schedule is not None
    value = assess(instance, second.schedule, "second").values[options.objective]
    return replace(
        first, value=value, schedule=second.schedule, wall_s=first.wall_s + second.wall_s,
        termination=first.termination if second.optimal else second.termination,
        steps=(*first.steps, *(
            msgspec.structs.replace(step, method=f"{options.then.value}: {step.method}")
            for step in second.steps
        )),
        tie=Tie(
            objective=second.objective, value=second.value, bound=second.bound, proof=second.proof
        ),
    )  # fmt: skip


def _solve(
    instance: Instance, options: SolveOptions, known: Sequence[Candidate],
    report: Callable[[str], None],
) -> Result:  # fmt: skip
    begin = time.monotonic()
    # What does not exist is refused now, not after the schedulers have run.
    require_solver(options.solver)
    require_threads(options.threads)
    if options.warm_start not in ("best", "none", "given"):
        scheduler(options.warm_start)
    policies = in_force(instance, options.policies)
    chosen = plan(
        instance, options.formulation, options.policies, options.objective,
        limited=tuple(options.subject_to),
    )  # fmt: skip
    require_feasible(instance, policies)
    search = Search(
        instance=instance, options=options, policies=policies, scope=chosen.scope, report=report,
        deadline=begin + options.time_limit_s,
    )  # fmt: skip
    used: list[str] = []
    solver_name: str | None = None
    for candidate in known:
        search.offer(candidate)
    try:
        _refute_limits(search, "quick", search.remaining_s)
        if not search.infeasible:
            _quick_bound(search)
            _schedulers(search, rules=bool(chosen.stages))
            share = _PRICED_SHARE if chosen.stages else 1.0
            _priced_bound(search, share * search.remaining_s)
            if options.formulation != "none":
                in_rounds(search)
        if options.write_model is not None and not search.infeasible:
            _write_model(search, chosen, options.write_model)
        for index, stage in enumerate(chosen.stages):
            if search.closed or search.infeasible or search.interrupted or search.remaining_s <= 0:
                break
            if _settled(search, stage):
                continue
            more = len(chosen.stages) - index - 1
            run = run_labels if stage.formulation == "labels" else run_stage
            outcome = run(search, stage, search.remaining_s / (2 if more else 1))
            used.append(stage.name)
            solver_name = outcome.solver if outcome else solver_name
    except KeyboardInterrupt:
        search.interrupted = True
        search.record("interrupted", begin, termination="interrupted")
        _fall_back(search)
    certified = options.certificate is not None and search.proven is not None
    if options.certificate is not None and search.proven is not None:
        write_certificate(search.proven.certificate(instance), options.certificate)
    result = _result(search, chosen, used, solver_name, time.monotonic() - begin)
    return replace(result, certified=certified)


def _settled(search: Search, stage: Stage) -> bool:
    """Whether label setting has proven all there is to prove of the stage's schedules."""
    return any(
        step.method == LABELS and step.scope == stage.scope and step.termination == "finished"
        for step in search.steps
    )


def _quick_bound(search: Search) -> None:
    begin = time.monotonic()
    search.tell("bounds")
    search.least_batches = lower_bound(search.instance).batches
    found = prove(
        search.instance, search.objective, effort="quick", subject_to=search.options.subject_to
    )
    _take(search, found, begin)


def _refute_limits(search: Search, effort: str, time_limit_s: float) -> None:
    """End the search if the bound on another objective is beyond its limit."""
    for other, limit in search.options.subject_to.items():
        begin = time.monotonic()
        found = prove(search.instance, other, effort=effort, time_limit_s=max(time_limit_s, 0.0))
        beyond = abs(found.value - limit) > OPTIMAL_GAP * abs(limit)
        if not (other.better(limit, found.value) and beyond):
            continue
        side = "at least" if other.maximised else "at most"
        note = f"{other.value} is to be {side} {limit!r}, but its bound is {found.value!r}"
        search.infeasible, search.proven = True, found
        search.scope = f"no schedule exists: {note} by {found.proof}"
        search.record(found.proof, begin, note=note, scope=other.value, bound=found.value)
        return


def _take(search: Search, found: Proven, begin: float) -> None:
    """Record a bound over all schedules, and keep it if it is the best so far."""
    if search.proven is None or search.objective.better(search.proven.value, found.value):
        search.proven = found
    search.prove(found.value, found.proof)
    search.record(found.proof, begin, bound=found.value)


def _schedulers(search: Search, *, rules: bool) -> None:
    """Offer what schedulers find; ``rules`` asks for more than the portfolio."""
    begin = time.monotonic()
    if search.closed:
        return  # the bound alone answers the question, or what is known
    for name in _warm_starts(search, rules=rules):
        if search.closed or search.remaining_s <= 0:
            break
        search.tell(f"scheduler {name}")
        begun = time.monotonic()
        try:
            limit_s = _SCHEDULERS_SHARE * search.remaining_s
            search.offer(evaluate(search.instance, name, limit_s))
        except StoppedEarly as stopped:
            search.offer(assess(search.instance, stopped.schedule, name))
            raise
        except OptschedError as error:
            if search.options.warm_start != "best":
                raise
            # One of many that fails takes nothing from the others.
            search.record(name, begun, termination="failed", note=error.message)
    _fall_back(search)
    note = search.best.name if search.best else "none obeys every limit"
    search.record("schedulers", begin, value=search.value, note=note)


def _fall_back(search: Search) -> None:
    """A fast rule, or one request after another, which obeys every policy: there is always a
    schedule."""
    if not search.candidates and not search.instance.has_calls:
        search.offer(evaluate(search.instance, _FAST_RULE))
    if not search.candidates:
        search.offer(assess(search.instance, serial(search.instance), "serial"))


def _priced_bound(search: Search, time_limit_s: float) -> None:
    """The bounds that take longer, unless value and bound have met."""
    effort = search.options.effort
    if search.closed or time_limit_s <= 0 or effort == "quick":
        return
    if search.best is None:
        _refute_limits(search, effort, time_limit_s / 2)
        if search.infeasible:
            return
    begin = time.monotonic()
    search.tell("priced bounds")
    # Of a policy's schedules only those above the bound matter, and they are longer still.
    found = prove(
        search.instance, search.objective, effort=effort, target=search.value,
        time_limit_s=min(time_limit_s, max(search.remaining_s, 0.0)),
        subject_to=search.options.subject_to,
    )  # fmt: skip
    _take(search, found, begin)


def _write_model(search: Search, chosen: Plan, path: Path) -> None:
    if not chosen.stages:
        raise UnsupportedError(f"there is no model to write: {chosen.reason}")
    stage = next((s for s in chosen.stages if s.formulation != "labels"), None)
    if stage is None:
        raise UnsupportedError("there is no model to write: label setting has none")
    write_model(program(search, stage).milp, path)


def _warm_starts(search: Search, *, rules: bool) -> list[str]:
    warm_start = search.options.warm_start
    if warm_start in ("none", "given"):
        return []
    if warm_start != "best":
        return [warm_start]
    # What is best for a limited objective is the likeliest to be within the limit.
    limited = () if search.candidates else tuple(search.options.subject_to)
    known = [
        name
        for objective in (search.objective, *limited)
        for name in known_schedules(search.instance, objective, search.options.effort)
    ]
    asked = rules and known and not search.instance.has_calls  # no rule knows calls
    return list(dict.fromkeys([*(RULES if asked else ()), *known]))


def _result(
    search: Search, chosen: Plan, used: list[str], solver_name: str | None, wall_s: float
) -> Result:
    best, options = search.best, search.options
    target = None
    if options.target is not None:
        target = Target(asked=options.asked, value=options.target, answer=search.answer)
    termination = "finished"
    if search.infeasible and best is None:
        termination = "infeasible"
    elif (target is not None and target.answer != "unknown") or (
        search.gap is not None and search.gap <= OPTIMAL_GAP
    ):
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
        handling=handlings(search.instance, best.schedule) if best else (),
        instance=search.instance.name, digest=search.instance.digest,
        objective=options.objective.value, target=target,
        value=search.value, bound=search.bound, proof=search.proof, scope=search.scope,
        policies=options.policies, termination=termination, wall_s=wall_s,
        formulation=" + ".join(used) or None, reason=chosen.reason, solver=solver_name,
        schedule=best.schedule if best else None, found_by=best.name if best else None,
        options={
            "formulation": options.formulation, "solver": options.solver,
            "subject_to": {other.value: limit for other, limit in options.subject_to.items()},
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
