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
