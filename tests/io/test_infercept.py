"""The INFERCEPT workload: segments become requests with calls, nonsense is refused by place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.instance import Call, Instance
from optsched.io import format_instance, parse_instance
from optsched.io.api_classes import class_of
from optsched.io.infercept import import_infercept
from tests.traces import infercept_workload

HEADER = (
    "api_class,request,segment,new_prompt_tokens,prompt_tokens_as_recorded,completion_tokens,"
    "api_time_s,api_return_tokens\n"
)
MATH = "math,7,0,392,392,127,8.5e-05,21\nmath,7,1,0,540,47,0.0,0\nmath,7,2,0,610,48,,\n"
VE = "ve,9,0,1973,1973,4,0.1,2\nve,9,1,0,1979,5,0.2,-2\n"
TABLE = HEADER + MATH + VE


def imported(path: Path, **options: Any) -> Instance:
    instance, _ = import_infercept(path, **{"preset_name": "llama2-7b-a100", "rate": 2} | options)
    return instance


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "calls.csv"
    path.write_text(text)
    return path


def test_segments_become_calls_and_a_last_call_is_none(tmp_path: Path) -> None:
    instance = imported(file(tmp_path, TABLE), host_kv_tokens=200_000, kv_tokens=20_000)
    requests = {r.id: r for r in instance.requests}
    math, ve = requests["math-7"], requests["ve-9"]
    assert (math.prompt_tokens, math.output_tokens) == (392, 127 + 47 + 48)
    assert math.calls == (
        Call(after_tokens=127, duration_s=8.5e-5, response_tokens=21),
        Call(after_tokens=174, duration_s=0.0, response_tokens=0),
    )
    assert (ve.prompt_tokens, ve.output_tokens) == (1973, 9)
    assert ve.calls == (Call(after_tokens=4, duration_s=0.1, response_tokens=2),)
    assert (instance.limits.kv_tokens, instance.limits.host_kv_tokens) == (20_000, 200_000)


def test_oversized_requests_count_their_responses(tmp_path: Path) -> None:
    path = file(tmp_path, TABLE)
    assert len(imported(path, kv_tokens=1973 + 9 - 1 + 2)) == 2
    with pytest.raises(InvalidInputError, match=r"1 of 2 requests .* ve-9"):
        imported(path, kv_tokens=1982)
    instance, left_out = import_infercept(
        path, preset_name="study", rate=0, kv_tokens=1982, leave_out_oversized=True
    )
    assert left_out == ["ve-9"]
    assert [r.id for r in instance.requests] == ["math-7"]


FIRST = "math,7,0,392,392,127,8.5e-05,21"
SECOND = "math,7,1,0,540,47,0.0,0"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("api_class,request", "request,api_class", "columns are request,api_class"),
        (MATH + VE, "", "no requests"),
        (FIRST, "math,7,0,392,392,0,8.5e-05,21", "line 2: completion_tokens: got '0'"),
        (SECOND, "math,7,1,0,540,0,0.0,0", "line 3: completion_tokens: got '0'"),
        (SECOND, "math,7,1,0,540,-4,0.0,0", "line 3: completion_tokens: got '-4'"),
        (SECOND, "math,7,1,0,540,4.5,0.0,0", "line 3: completion_tokens: got '4.5'"),
        (SECOND, "math,7,1,0,540,47,nan,0", "line 3: api_time_s: got 'nan'"),
        (SECOND, "math,7,1,0,540,47,inf,0", "line 3: api_time_s: got 'inf'"),
        (SECOND, "math,7,1,0,540,47,1e999,0", "line 3: api_time_s: got '1e999'"),
        (SECOND, "math,7,1,0,540,47,-0.1,0", "line 3: api_time_s: got '-0.1'"),
        (SECOND, "math,7,1,0,540,47,,", "line 3: api_time_s: got ''"),
        (SECOND, "math,7,1,0,540,47,0.0,-2", "line 3: api_return_tokens: got '-2'"),
        (SECOND, "math,7,1,0,540,47,0.0,", "line 3: api_return_tokens: got ''"),
        (SECOND, "math,7,1,0,540,47,0.0,NaN", "line 3: api_return_tokens: got 'NaN'"),
        (SECOND, "math,7,2,0,540,47,0.0,0", "line 3: segment: got '2', expected 1"),
        (SECOND, "math,7,1,5,540,47,0.0,0", "line 3: new_prompt_tokens: got '5'"),
        (SECOND, "qa,7,1,0,540,47,0.0,0", "line 3: api_class: got 'qa'"),
        (SECOND, "math,7,1,0,many,47,0.0,0", "line 3: prompt_tokens_as_recorded: got 'many'"),
        (SECOND, "math,7,1,0,540,47,0.0", "line 3 has not 8 fields"),
        (SECOND + "\n", "", "line 3: segment: got '2'"),
        ("math,7", "maths,7", "line 2: api_class: unknown API class 'maths'"),
        ("math,7", "math,-7", "line 2: request: got '-7'"),
        ("math,7,0,392", "math,7,0,0", "line 2: new_prompt_tokens: got '0'"),
        ("48,,", "48,,3", "line 4: api_return_tokens: got '3'"),
        ("48,,", "48,later,", "line 4: api_time_s: got 'later'"),
        ("5,0.2,-2", "5,0.2,none", "line 6: api_return_tokens: got 'none'"),
        ("127,8.5e-05", "9999999,8.5e-05", "request 'math-7': output_tokens: got 10000094"),
    ],
)
def test_refused_with_line_and_column(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert old in TABLE
    with pytest.raises(InvalidInputError) as caught:
        imported(file(tmp_path, TABLE.replace(old, new)))
    assert what in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_refused_options(tmp_path: Path) -> None:
    path = file(tmp_path, TABLE)
    for rate in (-1.0, 1e-9, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="rate"):
            imported(path, rate=rate)
    with pytest.raises(InvalidInputError, match="seed: got -1"):
        imported(path, seed=-1)
    with pytest.raises(UnknownNameError, match="did you mean math"):
        imported(path, classes=("maht",))
    with pytest.raises(InvalidInputError, match="no requests"):
        imported(path, classes=("tts",))
    with pytest.raises(InvalidInputError, match="at least one class"):
        imported(path, classes=())
    with pytest.raises(InvalidInputError, match="only once"):
        imported(path, classes=("math", "math"))


def test_the_real_workload_has_the_figures_of_its_readme() -> None:
    instance = imported(infercept_workload(), rate=4, seed=3)
    requests = instance.requests
    assert Counter(class_of(r.id) for r in requests) == {
        "math": 98, "qa": 50, "ve": 54, "chatbot": 65, "image": 65, "tts": 65
    }  # fmt: skip
    assert len({r.id.rpartition("-")[2] for r in requests}) == 397
    # Calls of the README's table less the last call of every ve, image and tts request.
    calls = Counter(class_of(r.id) for r in requests for _ in r.calls)
    assert calls == {
        "math": 275, "qa": 152, "ve": 289 - 54, "chatbot": 225, "image": 450 - 65, "tts": 450 - 65
    }  # fmt: skip
    prompts = [r.prompt_tokens for r in requests if class_of(r.id) == "qa"]
    assert np.mean(prompts) == pytest.approx(934, abs=0.5)
    final = [r.final_tokens for r in requests if class_of(r.id) == "chatbot"]
    assert np.mean(final) + 1 == pytest.approx(753, abs=0.5)
    pauses = [sum(call.duration_s for call in r.calls) for r in requests]
    assert np.mean(pauses) == pytest.approx(49.083, abs=1e-3)
    assert parse_instance(format_instance(instance).encode(), "x") == instance


def test_arrivals_are_poisson_in_an_order_that_the_seed_gives() -> None:
    path = infercept_workload()
    slow, fast = imported(path, rate=1, seed=5), imported(path, rate=4, seed=5)
    assert [r.id for r in slow.requests] == [r.id for r in fast.requests]
    assert np.allclose(slow.release_s, 4 * fast.release_s, atol=4e-6)
    gaps = np.diff(slow.release_s)
    assert gaps.min() >= 0
    # Mean and deviation of 396 exponential gaps of mean 1: three standard errors are 0.15 and 0.21.
    assert gaps.mean() == pytest.approx(1, abs=0.15)
    assert gaps.std() == pytest.approx(1, abs=0.22)
    other = imported(path, rate=1, seed=6)
    assert [r.id for r in slow.requests] != [r.id for r in other.requests]
    assert len({class_of(r.id) for r in slow.requests[:40]}) >= 5  # the file is sorted by class


def test_rate_zero_limit_and_classes() -> None:
    path = infercept_workload()
    all_at_once = imported(path, rate=0, seed=5, limit=30)
    assert all_at_once.offline
    first = [r.id for r in imported(path, rate=2, seed=5).requests[:30]]
    assert [r.id for r in all_at_once.requests] == first
    some = imported(path, classes=("qa", "math"))
    assert len(some) == 148
    assert {class_of(r.id) for r in some.requests} == {"qa", "math"}
