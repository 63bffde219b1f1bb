"""Instance files: round trips, and a clear error for everything that is wrong with one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from optsched.cost import CostModel
from optsched.errors import InvalidInputError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import format_instance, parse_instance, preset, presets, read_instance, schema
from optsched.io.generate import azure_like, mix, uniform
from tests.tiny import random_instance

# The smallest instance of docs/problem.md, section 8.
SMALLEST: dict[str, Any] = {
    "format": "optsched-instance/1",
    "name": "two",
    "limits": {"kv_tokens": 16, "batch_tokens": 4096},
    "cost": {"preset": "study"},
    "requests": [
        {"id": "r0", "prompt_tokens": 8, "output_tokens": 4},
        {
            "id": "r1", "prompt_tokens": 8, "output_tokens": 4, "arrival_s": 0.02,
            "calls": [{"after_tokens": 2, "duration_s": 0.1, "response_tokens": 5}],
        },
    ],
}  # fmt: skip


def parse(value: Any) -> Instance:
    return parse_instance(json.dumps(value).encode(), "file.json")


def changed(**parts: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(SMALLEST)), **parts}


def test_the_smallest_instance() -> None:
    instance = parse(SMALLEST)
    assert instance.limits == Limits(kv_tokens=16, batch_tokens=4096)
    assert instance.requests[1].calls == (Call(after_tokens=2, duration_s=0.1, response_tokens=5),)
    assert instance.final_tokens.tolist() == [11, 16]
    assert instance.release_s.tolist() == [0.0, 0.02]
    assert instance.cost.pieces == ((9e-3, 7e-5),)
    assert instance.cost.mixed == 2 * instance.cost.p_sq


@pytest.mark.parametrize("seed", range(60))
def test_round_trip(seed: int) -> None:
    instance = random_instance(seed, arrivals=True, pages=True, tight=True)
    text = format_instance(instance)
    again = parse_instance(text.encode(), "file.json")
    assert again == instance
    assert again.digest == instance.digest
    assert format_instance(again) == text


@pytest.mark.parametrize(
    "instance",
    [azure_like(100, seed=3), mix(80, "SISO+LILO"), uniform(70, 8, 4), uniform(3, 8, 4)],
    ids=lambda i: i.name,
)
def test_round_trip_of_columns(instance: Instance) -> None:
    text = format_instance(instance)
    assert isinstance(json.loads(text)["requests"], dict if len(instance) >= 64 else list)
    assert parse_instance(text.encode(), "file.json") == instance


def test_columns_keep_what_is_rare() -> None:
    requests = tuple(
        Request(
            id=f"q{i}", prompt_tokens=3, output_tokens=4, weight=2.0 if i == 5 else 1.0,
            ttft_slo_s=0.5 if i == 7 else None,
            calls=(Call(after_tokens=1, duration_s=1, response_tokens=2),) if i == 9 else (),
        )
        for i in range(64)
    )  # fmt: skip
    instance = msgspec.structs.replace(parse(SMALLEST), requests=requests)
    assert parse_instance(format_instance(instance).encode(), "x").requests == requests


def test_the_digest_depends_on_what_matters_only() -> None:
    instance = parse(SMALLEST)
    renamed = msgspec.structs.replace(instance, name="another")
    spelled_out = msgspec.structs.replace(
        instance, cost=msgspec.structs.replace(instance.cost, preset=None)
    )
    default_p = msgspec.structs.replace(
        instance, limits=Limits(kv_tokens=16, batch_tokens=4096, prefill_tokens=4096)
    )
    assert instance.digest == renamed.digest == spelled_out.digest == default_p.digest
    larger = msgspec.structs.replace(instance, limits=Limits(kv_tokens=17, batch_tokens=4096))
    whole = msgspec.structs.replace(
        instance, requests=(Request(id="r0", prompt_tokens=8, output_tokens=4, arrival_s=0),)
    )
    assert len({instance.digest, larger.digest, whole.digest}) == 3


R0 = SMALLEST["requests"][0]
BROKEN = [
    (changed(requests=[]), "requests", "at least one request"),
    (changed(format="optsched-instance/9"), "got 'optsched-instance/9'", "optsched-instance/1"),
    (changed(limits={"kv_tokens": 16}), "$.limits", "batch_tokens"),
    (changed(limits={"kv_tokens": 0, "batch_tokens": 1}), "$.limits", "got 0"),
    (changed(limits={"kv_tokens": 16.5, "batch_tokens": 1}), "$.limits.kv_tokens", "`int`"),
    (changed(limits={"kv_tokens": True, "batch_tokens": 1}), "$.limits.kv_tokens", "`bool`"),
    (changed(cost={"preset": "stduy"}), "unknown cost preset 'stduy'", "did you mean study"),
    (changed(cost={"preset": "study", "d0": 1}), "cost", "not both"),
    (changed(cost={"d0": 1}), "cost", "a preset or at least pieces"),
    (changed(cost={"pieces": [[-1, 0.5]]}), "cost.pieces", "positive time"),
    (changed(cost={"pieces": [[1, -1]]}), "cost.pieces[0][1]", ">= 0"),
    (changed(cost={"pieces": [[1e308, 1]]}), "cost.pieces[0][0]", "within 1e+09"),
    (changed(cost={"pieces": [[1, 1], [-1e10, 1]]}), "cost.pieces[1][0]", "within 1e+09"),
    (changed(cost={"pieces": [[1, 1e308]]}), "cost.pieces[0][1]", "at most 1e+09"),
    (changed(cost={"pieces": [[1, 1]], "d_kv": 2e9}), "cost.d_kv", "at most 1e+09"),
    (changed(cost={"pieces": [[1, 1]], "p_mc": 1e300}), "cost.p_mc", "at most 1e+09"),
    (changed(cost={"pieces": [[1, 1, 1]]}), "$.cost.pieces[0]", "length 2"),
    (changed(cost={"pieces": [[1, 1]], "p_sq": -2}), "cost.p_sq", "got -2"),
    (changed(requests=[{**R0, "prompt_tokens": -8}]), "$.requests[0]", "got -8"),
    (changed(requests=[{**R0, "prompt_tokens": 10**30}]), "$.requests[0]", "<= 10000000"),
    (changed(requests=[{**R0, "promt_tokens": 8}]), "$.requests[0]", "did you mean prompt_tokens"),
    (changed(requests=[{"id": "r0", "prompt_tokens": 8}]), "$.requests[0]", "output_tokens"),
    (changed(requests=[R0, R0]), "request.id", "only once"),
    (changed(requests=[{**R0, "arrival_s": -0.5}]), "$.requests[0]", "arrival_s"),
    (
        changed(requests=[{**R0, "calls": [
            {"after_tokens": 4, "duration_s": 1, "response_tokens": 0}]}]),
        "$.requests[0]", "calls[0].after_tokens",
    ),
    (
        changed(requests={"prompt_tokens": [1, 2], "output_tokens": [1]}),
        "requests.output_tokens", "2 entries",
    ),
    (changed(requests={"prompt_tokens": [1]}), "$.requests", "output_tokens"),
    ([SMALLEST], "$", "Expected `object`"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "where", "what"), BROKEN)
def test_broken_files(value: Any, where: str, what: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(value)
    assert str(caught.value).startswith("file.json: ")
    assert where in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b'{"a": }', b"\xff\xfe", b'{"name": NaN}', b"[1, 2"])
def test_no_json(text: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"file\.json: "):
        parse_instance(text, "file.json")


@pytest.mark.parametrize("before", ["", '{"requests": [], "name": ', '{"what": '])
def test_deeply_nested(before: str) -> None:
    text = before + "[" * 100_000 + "]" * 100_000 + ("}" if before else "")
    with pytest.raises(InvalidInputError, match=r"file\.json: "):
        parse_instance(text.encode(), "file.json")


def test_files_that_cannot_be_read(tmp_path: Any) -> None:
    with pytest.raises(InvalidInputError, match="no such file"):
        read_instance(tmp_path / "missing.json")
    with pytest.raises(InvalidInputError, match="is a directory"):
        read_instance(tmp_path)


@pytest.mark.parametrize("name", list(presets()))
def test_presets_have_provenance(name: str) -> None:
    row = preset(name)
    assert row.cost.preset == name
    assert row.source
    assert row.error
    assert row.kv_tokens > 0
    assert isinstance(row.cost, CostModel)


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema("instance"))
    for instance in (parse(SMALLEST), azure_like(70), random_instance(5, tight=True)):
        validator.validate(json.loads(format_instance(instance)))
    for value in (changed(extra=1), changed(limits={}), changed(requests=[{"id": "r0"}])):
        assert list(validator.iter_errors(value))
