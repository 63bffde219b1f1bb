"""Schedule, trace and result files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optsched.errors import InvalidInputError
from optsched.io import (
    read_result,
    read_schedule,
    read_trace,
    result_file,
    schedule_file,
    schema,
    trace_file,
    write_result,
    write_schedule,
    write_trace,
)
from optsched.io.generate import uniform
from optsched.io.layout import to_json
from optsched.result import Result, Step
from optsched.schedule import Kind, Schedule, from_steps
from optsched.trace import Trace

TWO = uniform(2, 3, 2, kv_tokens=8)
P, E = int(Kind.PROCESS), int(Kind.EVICT)
SCHEDULE = from_steps(
    [(0, P, 1, 3), (0, P, 2, 1), (1, P, 1, 3), (1, E, 2, 0), (1, P, 3, 4)]
)  # fmt: skip
TRACE = Trace(
    source="simulated", start_s=np.array([0.0, 0.1, 0.2]), end_s=np.array([0.1, 0.2, 0.5]),
    first_token_s=np.array([0.1, 0.1]), finish_s=np.array([0.2, np.nan]), pause_s=np.zeros(2),
)  # fmt: skip


def test_schedule_round_trip(tmp_path: Path) -> None:
    write_schedule(SCHEDULE, TWO, tmp_path / "s.json", "mine")
    assert read_schedule(tmp_path / "s.json", TWO).same_as(SCHEDULE)
    wire = json.loads((tmp_path / "s.json").read_text())
    assert wire["runs"]["request"] == ["r0", "r0", "r1", "r1", "r1"]
    assert wire["runs"]["kind"] == ["process", "process", "process", "evict", "process"]
    assert wire["digest"] == TWO.digest


def test_waits_are_kept(tmp_path: Path) -> None:
    waiting = Schedule(
        request=SCHEDULE.request, kind=SCHEDULE.kind, first_batch=SCHEDULE.first_batch,
        batches=SCHEDULE.batches, tokens=SCHEDULE.tokens,
        wait_batch=np.array([2]), wait_until_s=np.array([0.25]),
    )  # fmt: skip
    write_schedule(waiting, TWO, tmp_path / "s.json")
    assert read_schedule(tmp_path / "s.json", TWO).same_as(waiting)
    assert not waiting.same_as(SCHEDULE)


def test_trace_round_trip(tmp_path: Path) -> None:
    write_trace(TRACE, TWO, tmp_path / "t.json")
    again = read_trace(tmp_path / "t.json", TWO)
    for name in ("start_s", "end_s", "first_token_s", "finish_s", "pause_s"):
        np.testing.assert_array_equal(getattr(again, name), getattr(TRACE, name))
    assert "NaN" not in (tmp_path / "t.json").read_text()


def test_result_round_trip_and_schedule_inside(tmp_path: Path) -> None:
    result = Result(
        instance=TWO.name, digest=TWO.digest, objective="makespan", value=0.5, bound=0.4,
        proof="B1 batch count", scope="all schedules", policies=("no-evict",),
        termination="time-limit", wall_s=1.5, schedule=SCHEDULE, found_by="vllm",
        steps=(Step(method="bounds", scope="all schedules", value=0.5, bound=0.4,
                    termination="finished", wall_s=0.1),),
    )  # fmt: skip
    write_result(result, TWO, tmp_path / "r.json")
    again = read_result(tmp_path / "r.json", TWO)
    assert again.schedule is not None
    assert again.schedule.same_as(SCHEDULE)
    assert again.gap == pytest.approx(0.25)
    assert not again.optimal
    assert again.steps == result.steps
    assert read_schedule(tmp_path / "r.json", TWO).same_as(SCHEDULE)
    assert (tmp_path / "r.json").read_text() == to_json(result_file(again, TWO))


def test_written_files_obey_their_schemas() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for name, wire in (
        ("schedule", schedule_file(SCHEDULE, TWO)),
        ("trace", trace_file(TRACE, TWO)),
    ):
        jsonschema.Draft202012Validator(schema(name)).validate(json.loads(to_json(wire)))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"request": ["r0", "nobody"]}, "runs.request[1]: got 'nobody'"),
        ({"kind": ["process", "explode"]}, "$.runs.kind[1]"),
        ({"first_batch": [1, 0]}, "runs.first_batch[1]: got 0"),
        ({"batches": [1]}, "runs.batches: got 1, expected 2 entries"),
        ({"tokens": [3, -1]}, "runs.tokens[1]: got -1"),
        # What 64 bits cannot hold, and what sums of could not.
        ({"first_batch": [2**63, 1]}, f"runs.first_batch[0]: got {2**63}"),
        ({"first_batch": [1, -(2**70)]}, f"runs.first_batch[1]: got {-(2**70)}"),
        ({"tokens": [3, 2**64]}, f"runs.tokens[1]: got {2**64}"),
        ({"batches": [2**62, 1]}, f"runs.batches[0]: got {2**62}"),
        (
            {"first_batch": [1, 10**15 + 1]},
            f"got {10**15 + 1}, expected a whole number <= {10**15}",
        ),
    ],
)
def test_broken_schedules(tmp_path: Path, change: dict[str, object], what: str) -> None:
    runs = {
        "request": ["r0", "r1"], "kind": ["process", "process"], "first_batch": [1, 1],
        "batches": [1, 1], "tokens": [3, 3], **change,
    }  # fmt: skip
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"format": "optsched-schedule/1", "runs": runs}))
    with pytest.raises(InvalidInputError) as caught:
        read_schedule(path, TWO)
    assert what in str(caught.value)


def test_waits_beyond_64_bits(tmp_path: Path) -> None:
    wire = json.loads(to_json(schedule_file(SCHEDULE, TWO)))
    wire["waits"] = {"batch": [2**64], "not_before_s": [1]}
    (tmp_path / "s.json").write_text(json.dumps(wire))
    with pytest.raises(InvalidInputError, match=f"waits.batch.0.: got {2**64}"):
        read_schedule(tmp_path / "s.json", TWO)


@pytest.mark.parametrize("column", ["first_batch", "batches", "tokens"])
def test_the_record_has_the_same_limits_as_the_file(column: str) -> None:
    one = {"request": [0], "kind": [P], "first_batch": [1], "batches": [1], "tokens": [1]}
    assert Schedule(**{**one, column: np.array([10**15])}).batch_count  # type: ignore[arg-type]
    for large in (np.array([10**15 + 1]), np.array([2**64 - 1], dtype=np.uint64)):
        with pytest.raises(InvalidInputError, match=f"runs.{column}.0.: got {int(large[0])}"):
            Schedule(**{**one, column: large})  # type: ignore[arg-type]


def test_the_schedule_of_another_instance_is_told(tmp_path: Path) -> None:
    other = uniform(2, 3, 2, kv_tokens=9)
    schedule, trace, result = (tmp_path / name for name in ("s.json", "t.json", "r.json"))
    write_schedule(SCHEDULE, TWO, schedule)
    write_trace(TRACE, TWO, trace)
    write_result(
        Result(
            instance=TWO.name, digest=TWO.digest, objective="makespan", value=0.5, bound=0.4,
            proof=None, scope="all schedules", policies=(), termination="time-limit", wall_s=1.5,
            schedule=SCHEDULE, found_by="vllm",
        ), TWO, result,
    )  # fmt: skip
    told: list[str] = []
    for read, path in ((read_schedule, schedule), (read_schedule, result), (read_trace, trace)):
        read(path, TWO, told.append)
        assert told == []
        read(path, other)
        assert told == []
        read(path, other, told.append)
        assert len(told) == 1
        assert told.pop() == (
            f"{path} was made for another instance ({TWO.name}, digest {TWO.digest})"
        )
    wire = json.loads(schedule.read_text())
    del wire["digest"]
    schedule.write_text(json.dumps(wire))
    read_schedule(schedule, other, told.append)
    assert told == []


@pytest.mark.parametrize("kind", ["schedule", "result"])
def test_deeply_nested_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.json"
    deep = "[" * 100_000 + "]" * 100_000
    path.write_text(f'{{"options": {{"a": {deep}}}, "format": "optsched-{kind}/1"}}')
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        read_schedule(path, TWO)
