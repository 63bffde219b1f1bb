"""Workloads with calls from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from optsched.io import read_instance, schema
from optsched.io.infercept import import_infercept
from tests.cli.command import optsched
from tests.traces import infercept_workload

IMPORT = ("import", "infercept", "calls.csv", "--preset", "study", "--out", "o.json")


def test_import(tmp_path: Path) -> None:
    out = tmp_path / "calls.json"
    ended = optsched(
        "import", "infercept", infercept_workload(), "--preset", "llama2-7b-a100", "--rate", 4,
        "--seed", 2, "--limit", 80, "--classes", "math,image", "--kv-tokens", 20_000,
        "--host-kv-tokens", 200_000, "--ttft-slo", 1, "--out", out,
    )  # fmt: skip
    assert (ended.code, ended.out) == (0, "")
    jsonschema.Draft202012Validator(schema("instance")).validate(json.loads(out.read_text()))
    expected, _ = import_infercept(
        infercept_workload(), preset_name="llama2-7b-a100", rate=4, seed=2, limit=80,
        classes=("math", "image"), kv_tokens=20_000, host_kv_tokens=200_000,
    )  # fmt: skip
    instance = read_instance(out)
    assert instance.limits == expected.limits
    assert [(r.id, r.arrival_s, r.calls) for r in instance.requests] == [
        (r.id, r.arrival_s, r.calls) for r in expected.requests
    ]
    assert {r.ttft_slo_s for r in instance.requests} == {1.0}


def test_generate(tmp_path: Path) -> None:
    options = ("generate", "augmented", "--requests", 70, "--rate", 2, "--seed", 4)
    first, second = optsched(*options).out, optsched(*options).out
    assert first == second
    jsonschema.Draft202012Validator(schema("instance")).validate(json.loads(first))
    out = tmp_path / "calls.json"
    assert optsched(*options, "--classes", "ve", "--out", out).code == 0
    assert {r.prompt_tokens for r in read_instance(out).requests} == {1973}
    assert "INFERCEPT" in optsched("generate", "augmented", "--help").out


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (IMPORT, 2, "give --rate"),
        ((*IMPORT, "--rate", "2", "--offline"), 2, "contradict"),
        ((*IMPORT, "--rate", "nan"), 2, "finite"),
        ((*IMPORT, "--rate", "2"), 1, "no such file"),
        ((*IMPORT, "--rate", "2", "--classes", "maht"), 2, "did you mean math"),
        (("import", "azure", *IMPORT[2:], "--rate", "2"), 2, "only for infercept"),
        (("import", "azure", *IMPORT[2:], "--seed", "0"), 2, "--seed: only for infercept"),
        (("import", "azure", *IMPORT[2:], "--classes", "qa"), 2, "--classes: only for infercept"),
        (("import", "infercpt", *IMPORT[2:]), 2, "did you mean infercept"),
        (("generate", "augmented", "--classes", "math,"), 2, "unknown API class ''"),
        (("generate", "augmented", "--classes", "qa,qa"), 1, "every class only once"),
        (("generate", "augmented", "--kv-tokens", "99"), 1, "more than kv_tokens = 99"),
    ],
)  # fmt: skip
def test_mistakes(arguments: tuple[str, ...], code: int, what: str) -> None:
    ended = optsched(*arguments)
    assert ended.code == code
    assert what in ended.err
    assert not ended.out
