"""Schedules and traces as files; both speak of requests by id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from optsched.errors import InvalidInputError, require
from optsched.instance import Instance
from optsched.io.decode import decode, format_of
from optsched.io.files import read_bytes, write_text
from optsched.io.layout import to_json
from optsched.io.wire import (
    BatchTimes,
    RequestTimes,
    ResultFile,
    RunColumns,
    ScheduleFile,
    TraceFile,
    WaitColumns,
)
from optsched.schedule import KIND_OF_LABEL, MOST, IntArray, Kind, Schedule
from optsched.trace import Trace

Note = Callable[[str], None]


def read_schedule(path: str | Path, instance: Instance, note: Note | None = None) -> Schedule:
    """Schedule for ``instance`` from a schedule file, or the schedule inside a result file.

    ``note`` is called with a sentence if the file says that it was made for another instance; a
    schedule may well be of use for several.

    Raises
    ------
    InvalidInputError
        The file cannot be read, breaks the format, holds no schedule, or names a request that
        the instance does not have.
    """
    path = Path(path)
    text = read_bytes(path)
    if format_of(text, str(path)) == "optsched-result/1":
        found = decode(text, ResultFile, str(path)).schedule
        if found is None:
            raise InvalidInputError(f"{path}: this result holds no schedule")
        wire = found
    else:
        wire = decode(text, ScheduleFile, str(path))
    _compare(wire, instance, path, note)
    try:
        return schedule_of(wire, instance)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error.message}", hint=error.hint) from None


def schedule_of(wire: ScheduleFile, instance: Instance) -> Schedule:
    """Record of a decoded schedule file."""
    position = {request.id: i for i, request in enumerate(instance.requests)}
    runs = wire.runs
    for index, name in enumerate(runs.request):
        require(
            name in position, f"runs.request[{index}]", name, f"a request of {instance.name!r}",
            hint="is this the schedule of another instance?",
        )  # fmt: skip
    waits = wire.waits or WaitColumns(batch=[], not_before_s=[])
    return Schedule(
        request=np.array([position[name] for name in runs.request], dtype=np.int64),
        kind=np.array([KIND_OF_LABEL[label] for label in runs.kind], dtype=np.int64),
        first_batch=_integers(runs.first_batch, "runs.first_batch"),
        batches=_integers(runs.batches, "runs.batches"),
        tokens=_integers(runs.tokens, "runs.tokens"),
        wait_batch=_integers(waits.batch, "waits.batch"),
        wait_until_s=np.array(waits.not_before_s, dtype=np.float64),
    )


def schedule_file(
    schedule: Schedule, instance: Instance, scheduler: str | None = None
) -> ScheduleFile:
    """File form of a schedule; ``scheduler`` says where it comes from."""
    ids = [request.id for request in instance.requests]
    labels = {int(kind): kind.label for kind in Kind}
    waits = None
    if schedule.wait_batch.size:
        waits = WaitColumns(
            batch=schedule.wait_batch.tolist(), not_before_s=schedule.wait_until_s.tolist()
        )
    return ScheduleFile(
        format="optsched-schedule/1",
        instance=instance.name,
        digest=instance.digest,
        scheduler=scheduler,
        runs=RunColumns(
            request=[ids[i] for i in schedule.request.tolist()],
            kind=[labels[k] for k in schedule.kind.tolist()],  # type: ignore[misc]
            first_batch=schedule.first_batch.tolist(),
            batches=schedule.batches.tolist(),
            tokens=schedule.tokens.tolist(),
        ),
        waits=waits,
    )


def write_schedule(
    schedule: Schedule, instance: Instance, path: str | Path, scheduler: str | None = None
) -> None:
    """Write a schedule file."""
    write_text(Path(path), to_json(schedule_file(schedule, instance, scheduler)))


def read_trace(path: str | Path, instance: Instance, note: Note | None = None) -> Trace:
    """Trace for ``instance``; raises :class:`InvalidInputError` when the file does not fit it.

    ``note`` is called with a sentence if the file says that it was made for another instance.
    """
    path = Path(path)
    wire = decode(read_bytes(path), TraceFile, str(path))
    _compare(wire, instance, path, note)
    times = wire.requests
    row = {name: i for i, name in enumerate(times.id)}
    try:
        for request in instance.requests:
            require(request.id in row, "requests.id", sorted(row)[:3], f"also {request.id!r}")
        order = [row[request.id] for request in instance.requests]
        columns = {
            name: _floats(getattr(times, name), len(times.id), name)[order]
            for name in ("first_token_s", "finish_s", "pause_s")
        }
        return Trace(
            source=wire.source,
            start_s=np.array(wire.batches.start_s),
            end_s=np.array(wire.batches.end_s),
            **columns,
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error.message}", hint=error.hint) from None


def write_trace(trace: Trace, instance: Instance, path: str | Path) -> None:
    """Write a trace file."""
    write_text(Path(path), to_json(trace_file(trace, instance)))


def trace_file(trace: Trace, instance: Instance) -> TraceFile:
    """File form of a trace."""
    return TraceFile(
        format="optsched-trace/1",
        source=trace.source,  # type: ignore[arg-type]
        instance=instance.name,
        digest=instance.digest,
        batches=BatchTimes(start_s=trace.start_s.tolist(), end_s=trace.end_s.tolist()),
        requests=RequestTimes(
            id=[request.id for request in instance.requests],
            # JSON has no NaN: an undefined time is null.
            first_token_s=[_or_none(t) for t in trace.first_token_s],
            finish_s=[_or_none(t) for t in trace.finish_s],
            pause_s=trace.pause_s.tolist(),
        ),
    )


def _compare(
    wire: ScheduleFile | TraceFile, instance: Instance, path: Path, note: Note | None
) -> None:
    """Tell if the file carries the digest of another instance."""
    if note is not None and wire.digest is not None and wire.digest != instance.digest:
        name = f"{wire.instance}, " if wire.instance else ""
        note(f"{path} was made for another instance ({name}digest {wire.digest})")


def _integers(values: list[int], name: str) -> IntArray:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        at = max(range(len(values)), key=lambda i: abs(values[i]))
        raise InvalidInputError(
            f"{name}[{at}]: got {values[at]}, expected a whole number from 0 to {MOST}"
        ) from None


def _or_none(time: float) -> float | None:
    return None if np.isnan(time) else float(time)


def _floats(values: list[float | None], count: int, name: str) -> np.ndarray:
    require(len(values) == count, f"requests.{name}", len(values), f"{count} entries, as in id")
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
