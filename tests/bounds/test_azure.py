"""The real Azure conversation hour of 2023, if its trace is there."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from optsched.bounds import lower_bound
from optsched.instance import Instance, Limits, Request
from optsched.io.presets import preset

TRACE = (
    Path(__file__).parents[3] / "shared/data/azure_llm_2023/AzureLLMInferenceTrace_conv.csv"
)  # fmt: skip


@cache
def trace() -> list[tuple[int, int, float]]:
    """(prompt, output, arrival in seconds) of every request."""
    if not TRACE.exists():
        pytest.skip(f"the Azure trace is not at {TRACE}")
    with TRACE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    times = np.array([np.datetime64(row["TIMESTAMP"].strip()[:26]) for row in rows])
    seconds = (times - times.min()) / np.timedelta64(1, "s")
    return [
        (int(row["ContextTokens"]), int(row["GeneratedTokens"]), float(second))
        for row, second in zip(rows, seconds, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "arrivals", "value_s", "proof"),
    [
        ("llama3-70b-4xa100", False, 6536.38, "B1 batch count"),
        ("llama3-70b-4xa100", True, 6558.79, "B5 arrivals"),
        ("infermax-70b-4xa100", False, 6001.17, "B1 batch count"),
        ("infermax-70b-4xa100", True, 6024.83, "B5 arrivals"),
    ],
)
def test_bounds_of_the_hour(name: str, arrivals: bool, value_s: float, proof: str) -> None:
    requests = tuple(
        Request(
            id=str(k), prompt_tokens=prompt, output_tokens=output,
            arrival_s=second if arrivals else 0.0,
        )
        for k, (prompt, output, second) in enumerate(trace())
    )  # fmt: skip
    assert len(requests) == 19_366
    limits = Limits(kv_tokens=100_000, batch_tokens=16_384)
    bound = lower_bound(
        Instance(name="azure", limits=limits, cost=preset(name).cost, requests=requests)
    )
    assert bound.value_s == pytest.approx(value_s, abs=0.01)
    assert bound.proof == proof
    assert bound.batches == 50_147
