"""``optsched solve``: the best schedule, and what is proven about it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click

from optsched import io
from optsched.check import POLICIES
from optsched.cli.chosen import UsageError
from optsched.cli.output import amount, note, percent, print_json, print_table
from optsched.cli.parameters import OBJECTIVE, FiniteRange, solving
from optsched.cli.progress import ProgressLine
from optsched.errors import InfeasibleError, InvalidInputError, UnknownNameError
from optsched.handling import HANDLINGS, HandledCall
from optsched.instance import Instance
from optsched.objective import OBJECTIVES, Objective
from optsched.result import OPTIMAL_GAP, Conflict, Result, Step, Target
from optsched.solve import SolveOptions, assess
from optsched.solve import solve as find_schedule
from optsched.solve.conflict import explain_refusal
from optsched.solve.plan import FORMULATIONS
from optsched.solve.target import target_value

_LEAST_WHY_S = 10.0  # to find out what conflicts, however long the proof took
_SHOWN = 12


@click.command(
    short_help="Find the best schedule and prove how good it is.",
    epilog="""\b
Examples:
  optsched solve instances/paper/I4.json
  optsched solve instance.json --policy no-evict --time-limit 300 --out result.json
  optsched solve instance.json --solver cpsat --warm-start sarathi-ef
  optsched solve instance.json --formulation compact --write-model model.mps
  optsched solve instance.json --objective mean-latency --then mean-ttft
  optsched solve instance.json --at-most 0.9*sarathi      is 10 % better possible?
  optsched solve instance.json --objective goodput --at-least all
  optsched solve instance.json --objective mean-ttft --subject-to mean-latency=2.5
""",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.option(
    "--objective", type=OBJECTIVE, default="makespan", show_default=True,
    help="What to minimise; goodput, the weight of requests that meet their SLOs, is maximised.",
)  # fmt: skip
@click.option(
    "--then", type=OBJECTIVE, help="Second objective, over the schedules best by the first."
)
@click.option(
    "--at-most", "at_most", metavar="TARGET",
    help="Only answer: is there a schedule at most this? A number, or 0.9*SCHEDULER.",
)  # fmt: skip
@click.option(
    "--at-least", "at_least", metavar="TARGET",
    help="The same for goodput: at least this weight; all for every request.",
)  # fmt: skip
@click.option(
    "--subject-to", "subject_to", multiple=True, metavar="OBJECTIVE=VALUE",
    help="Another objective must be at most (goodput: at least) this; repeatable.",
)  # fmt: skip
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME",
    help=f"Restrict the schedules: {', '.join(POLICIES)}; repeatable.",
)  # fmt: skip
@click.option(
    "--formulation", default="auto", show_default=True, metavar="|".join(FORMULATIONS),
    help="auto takes what is exact for the instance and says why.",
)  # fmt: skip
@click.option(
    "--solver", default="highs", show_default=True,
    help="highs, cpsat, or pulp:NAME for any solver that PuLP finds (pulp:CBC, pulp:GUROBI ...).",
)  # fmt: skip
@click.option(
    "--time-limit", type=FiniteRange(min=0, min_open=True), default=60.0, show_default=True,
    help="Seconds for everything together.",
)  # fmt: skip
@click.option(
    "--gap", type=FiniteRange(min=0), default=0.0, show_default=True,
    help="Stop when (value - bound) / bound is this small.",
)  # fmt: skip
@solving
@click.option(
    "--warm-start", default="best", show_default=True, metavar="NAME|FILE|none",
    help="best of all schedulers, one of them, a schedule file, or none.",
)  # fmt: skip
@click.option(
    "--write-model", type=click.Path(path_type=Path), help="Write the model (.mps or .lp)."
)
@click.option(
    "--certificate", type=click.Path(path_type=Path),
    help="Write the proof of the best bound that needs no formulation.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Write the result here.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def solve(
    ctx: click.Context, instance: Path, objective: str, then: str | None, at_most: str | None,
    at_least: str | None, subject_to: tuple[str, ...], policies: tuple[str, ...],
    formulation: str, solver: str, effort: str, time_limit: float, gap: float, seed: int,
    threads: int, warm_start: str, write_model: Path | None, certificate: Path | None,
    out: Path | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Find the best schedule by an objective and prove how good it is.

    Reports separately why it stopped, the schedule (checked and re-timed), the bound, the gap,
    and over which class of schedules an optimum holds. Ctrl-C keeps the best found. Exit code 0
    if the schedule is proven optimal or the gap asked for is reached, 1 if a formulation failed
    before that, else 4.

    With --at-most or --at-least it answers yes (exit code 0) with a schedule, no (3) with a proof
    and with what conflicts: rules and requests none of which can be left out, or unknown (4).
    """
    workload = io.read_instance(instance)
    for target in (out, certificate, write_model):
        if target is not None:
            io.require_writable(target)
    known = []
    if Path(warm_start).is_file():
        schedule = io.read_schedule(warm_start, workload, note)
        known, warm_start = [assess(workload, schedule, warm_start)], "given"
    goal = Objective(objective)
    asked = _target_text(goal, at_most, at_least)
    options = SolveOptions(
        objective=goal, then=Objective(then) if then else None, asked=asked or "",
        target=None if asked is None else _target(workload, goal, asked),
        subject_to=_limits(subject_to),
        policies=tuple(dict.fromkeys(policies)), formulation=formulation, solver=solver,
        effort=effort, time_limit_s=time_limit, relative_gap=gap, seed=seed, threads=threads,
        warm_start=warm_start, write_model=write_model, certificate=certificate,
    )  # fmt: skip
    try:
        with ProgressLine(quiet) as progress:
            result = find_schedule(workload, options, known=known, report=progress)
            if result.target is not None and result.target.answer == "no":
                conflict = explain_refusal(
                    workload, options, result, find_schedule, report=progress,
                    time_limit_s=max(time_limit - result.wall_s, _LEAST_WHY_S),
                )  # fmt: skip
                result = replace(result, conflict=conflict)
    except InfeasibleError:
        if as_json:
            print_json(io.result_file(_infeasible(workload, options), workload))
        raise
    if certificate is not None and not result.certified:
        click.echo(f"{certificate}: not written, as there was no bound yet", err=True)
    elif certificate is not None:
        claim = io.read_certificate(certificate)
        text = f"proves {claim.bound_s!r} {claim.objective.unit}"
        about = "" if claim.objective is goal else f" of {claim.objective.value}"
        click.echo(f"{certificate}: {text}{about}", err=True)
    if out is not None:
        io.write_result(result, workload, out)
    if as_json:
        print_json(io.result_file(result, workload))
    else:
        _print(workload, result)
        if result.conflict is not None:
            _print_conflict(goal, result.conflict)
    ctx.exit(_exit_code(result))


def _exit_code(result: Result) -> int:
    if result.target is not None:
        return {"yes": 0, "no": 3}.get(result.target.answer, 4)
    if result.termination == "failed":
        return 1
    if result.termination == "infeasible":
        return 3
    return 0 if result.optimal or result.termination == "gap-reached" else 4


def _target(workload: Instance, objective: Objective, asked: str) -> float:
    try:
        return target_value(workload, objective, asked)
    except InvalidInputError as error:
        raise UsageError(error.message, hint=error.hint) from None


def _target_text(objective: Objective, at_most: str | None, at_least: str | None) -> str | None:
    """The one that goes with the objective."""
    given, other, name = at_most, at_least, "--at-most"
    if objective.maximised:
        given, other, name = at_least, at_most, "--at-least"
    if other is not None:
        raise UsageError(
            f"a target on {objective.value} is given by {name}",
            hint="goodput is to be at least, every other objective at most a target",
        )
    return given


def _limits(texts: tuple[str, ...]) -> dict[Objective, float]:
    """The limits that are all kept: of two on one objective the tighter one."""
    limits: dict[Objective, float] = {}
    for objective, limit in map(_limit, texts):
        known = limits.get(objective, limit)
        limits[objective] = known if objective.better(known, limit) else limit
    return limits


def _limit(text: str) -> tuple[Objective, float]:
    """Objective and value of ``OBJECTIVE=VALUE``."""
    name, _, value = text.partition("=")
    if name not in OBJECTIVES:
        raise UnknownNameError("objective", name, OBJECTIVES)
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not (math.isfinite(limit) and limit >= 0):
        raise UsageError(
            f"--subject-to: got {text!r}, expected OBJECTIVE=VALUE with a number >= 0",
            hint="for example --subject-to mean-latency=2.5",
        )
    return Objective(name), limit


def _infeasible(workload: Instance, options: SolveOptions) -> Result:
    return Result(
        instance=workload.name, digest=workload.digest, objective=options.objective.value,
        value=None, bound=None, proof=None, scope="no schedule exists", policies=options.policies,
        termination="infeasible", wall_s=0.0,
    )  # fmt: skip


def _print(workload: Instance, result: Result) -> None:
    click.echo(f"{workload.name}: {len(workload)} requests\n")
    goal = Objective(result.objective)
    unit = " s" if goal.unit == "s" else f" of {workload.total_weight:.7g}"
    rows = [
        (goal.value, f"{amount(result.value, goal)}{unit}", result.found_by or ""),
        ("bound", f"{amount(result.bound, goal)}{unit}", result.proof or ""),
        ("gap", percent(result.gap, 4), _verdict(result)),
        ("scope", result.scope, ""),
    ]  # fmt: skip
    if result.target is not None:
        rows.insert(0, ("target", _answer(goal, result.target, unit), ""))
    if result.tie is not None:
        tie, second = result.tie, Objective(result.tie.objective)
        text = f"{amount(tie.value, second)}, bound {amount(tie.bound, second)}"
        rows.insert(3, (f"then {second.value}", text, f"gap {percent(tie.gap, 4)}"))
    if result.unchunked is not None and not result.optimal:
        rows.append(("unchunked", _unchunked(goal, result, result.unchunked), ""))
    schedule = result.schedule
    if schedule is not None:
        shape = f"{schedule.batch_count} batches, {schedule.evictions} evictions"
        rows.append(("schedule", shape, ""))
    if result.handling:
        rows.append(("calls", _handled(result.handling), ""))
    if result.reason:
        rows.append(("formulation", result.reason, ""))
    width = max(len(name) for name, _, _ in rows)
    for name, text, detail in rows:
        click.echo(f"{name:<{width}}  {text}{'  (' + detail + ')' if detail else ''}")
    click.echo()
    print_table(
        ("step", "value", "bound", "ended", "seconds", "about"),
        [
            (
                step.method, amount(step.value, goal), amount(step.bound, goal), step.termination,
                f"{step.wall_s:.2f}",
                step.note if step.scope == result.scope else f"{step.scope}; {step.note}",
            )
            for step in result.steps
        ],
        left=(0, 3, 5),
    )  # fmt: skip


def _unchunked(goal: Objective, result: Result, step: Step) -> str:
    """What is known of the schedules that fill every request in one batch."""
    assert step.bound is not None
    known = math.inf if result.value is None else goal.loss(result.value)
    if known - goal.loss(step.bound) <= OPTIMAL_GAP * abs(step.bound):
        return f"no schedule without chunks is better ({step.method})"
    return f"bound {amount(step.bound, goal)} for schedules without chunks ({step.method})"


def _handled(calls: tuple[HandledCall, ...]) -> str:
    counts = Counter(call.handling for call in calls)
    text = ", ".join(f"{counts[name]} {name}" for name in HANDLINGS if counts[name])
    if len(calls) > _SHOWN:
        return text
    each = ", ".join(f"{c.request} after {c.after_tokens}: {c.handling}" for c in calls)
    return f"{text} ({each})"


def _answer(goal: Objective, target: Target, unit: str) -> str:
    side = "at least" if goal.maximised else "at most"
    asked = "" if target.asked == f"{target.value:g}" else f" ({target.asked})"
    return f"{side} {amount(target.value, goal)}{unit}{asked}: {target.answer}"


def _print_conflict(goal: Objective, conflict: Conflict) -> None:
    together = "these alone exceed it"
    if goal.maximised:
        together = "of their SLOs not enough can be met together"
    if len(conflict.requests) == 1:
        together = "its SLOs cannot be met" if goal.maximised else "this one alone exceeds it"
    rows = [("rules", ", ".join(conflict.rules) or "none: it would be out of reach without limits")]
    if conflict.requests:
        shown = ", ".join(conflict.requests[:_SHOWN])
        more = len(conflict.requests) - _SHOWN
        shown += f" and {more} more" if more > 0 else ""
        rows.append(("requests", f"{shown}: {together}"))
    if conflict.relaxed_target is None:
        rows.append(
            ("relax", "no target can be reached: the limits on other objectives exclude all")
        )
    else:
        side = "at most" if goal.maximised else "at least"
        rows.append(("relax", f"the target to {side} {amount(conflict.relaxed_target, goal)}"))
    if conflict.slo_factor is not None:
        rows.append(
            ("or", f"the SLOs of these requests to {conflict.slo_factor:.4g} times as long")
        )
    if not conflict.irreducible:
        rows.append(("", "not every rule and request was tried to the end: fewer may conflict"))
    click.echo("\nwhat conflicts with the target")
    for name, text in rows:
        click.echo(f"  {name:<8}  {text}")


def _verdict(result: Result) -> str:
    if result.optimal:
        return "proven optimal"
    if result.gap is None or math.isinf(result.gap):
        return result.termination
    return f"not proven optimal: {result.termination}"
