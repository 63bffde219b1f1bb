"""Results as files."""

from __future__ import annotations

from pathlib import Path

from optsched.instance import Instance
from optsched.io.decode import decode
from optsched.io.files import read_bytes, write_text
from optsched.io.layout import to_json
from optsched.io.schedules import schedule_file, schedule_of
from optsched.io.wire import ResultFile
from optsched.result import Result


def result_file(result: Result, instance: Instance) -> ResultFile:
    """File form of a result."""
    found = result.schedule
    return ResultFile(
        format="optsched-result/1",
        instance=result.instance,
        digest=result.digest,
        objective=result.objective,
        value=result.value,
        bound=result.bound,
        gap=result.gap,
        proof=result.proof,
        scope=result.scope,
        policies=list(result.policies),
        termination=result.termination,
        wall_s=result.wall_s,
        formulation=result.formulation,
        reason=result.reason,
        solver=result.solver,
        found_by=result.found_by,
        options=result.options,
        versions=result.versions,
        steps=list(result.steps),
        schedule=None if found is None else schedule_file(found, instance, result.found_by),
        target=result.target,
        conflict=result.conflict,
        tie=result.tie,
        handling=list(result.handling),
    )


def write_result(result: Result, instance: Instance, path: str | Path) -> None:
    """Write a result file."""
    write_text(Path(path), to_json(result_file(result, instance)))


def read_result(path: str | Path, instance: Instance) -> Result:
    """Result about ``instance``; raises :class:`InvalidInputError` for a file that is none."""
    path = Path(path)
    wire = decode(read_bytes(path), ResultFile, str(path))
    values = {name: getattr(wire, name) for name in wire.__struct_fields__}
    for derived in ("format", "gap"):
        del values[derived]
    schedule = None if wire.schedule is None else schedule_of(wire.schedule, instance)
    values.update(
        policies=tuple(wire.policies), steps=tuple(wire.steps), schedule=schedule,
        handling=tuple(wire.handling),
    )  # fmt: skip
    return Result(**values)
