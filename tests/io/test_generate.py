"""Generators: seeded, and like what they imitate."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.io.generate import azure_like, mix, uniform
from tests.traces import azure_trace


def test_same_seed_same_requests() -> None:
    assert azure_like(50, seed=1) == azure_like(50, seed=1)
    assert azure_like(50, seed=1).digest != azure_like(50, seed=2).digest
    assert mix(20, "SISO+LILO", seed=1) == mix(20, "SISO+LILO", seed=1)


def test_azure_like_has_the_marginals_of_the_hour() -> None:
    large = azure_like(20_000, seed=5)
    table = np.genfromtxt(azure_trace(), delimiter=",", skip_header=1, usecols=(1, 2))
    for ours, theirs in ((large.prompt_tokens, table[:, 0]), (large.output_tokens, table[:, 1])):
        assert ours.mean() == pytest.approx(theirs.mean(), rel=0.03)
        for percent in (10, 50, 90, 99):
            assert np.percentile(ours, percent) == pytest.approx(
                np.percentile(theirs, percent), rel=0.1
            )
    assert large.release_s[-1] == pytest.approx(20_000 / 5.53, rel=0.05)


def test_rate_zero_is_offline() -> None:
    assert azure_like(5, rate=0).offline


def test_uniform_has_the_capacity_of_the_paper() -> None:
    assert uniform(4, 4, 4).limits.kv_tokens == 8
    assert uniform(4, 1, 4).limits.kv_tokens == 4
    assert uniform(4, 1, 4, kv_tokens=9).limits.kv_tokens == 9


def test_mix_takes_half_from_each_group() -> None:
    instance = mix(200, "SISO+LILO", seed=0)
    short = (instance.prompt_tokens <= 16) & (instance.output_tokens <= 16)
    long = (instance.prompt_tokens >= 512) & (instance.output_tokens >= 512)
    assert short.sum() == long.sum() == 100
    assert set(instance.prompt_tokens[short].tolist()) == {8, 16}


def test_refused() -> None:
    with pytest.raises(UnknownNameError, match="SISO"):
        mix(4, "SISI+LILO")
    with pytest.raises(InvalidInputError, match="groups"):
        mix(4, "SISO")
    for rate in (-1, 1e-320, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="rate"):
            azure_like(4, rate=rate)
    with pytest.raises(InvalidInputError, match="seed: got -1"):
        azure_like(4, seed=-1)
    for make in (azure_like, lambda n: uniform(n, 1, 1), lambda n: mix(n, "SISO+LILO")):
        with pytest.raises(InvalidInputError, match="requests: got 10000001"):
            make(10_000_001)
