"""Predictions of phases: exact, class means, length bins and noise, by hand and on a workload."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from optsched.errors import InvalidInputError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import preset
from optsched.io.augmented import augmented
from optsched.warmstart.predict import (
    CLAIRVOYANT,
    MARS,
    Phases,
    class_means,
    length_bins,
    predict,
    true_phases,
)


def request(name: str, output: int, *calls: tuple[int, float, int]) -> Request:
    made = tuple(Call(after_tokens=k, duration_s=d, response_tokens=r) for k, d, r in calls)
    return Request(id=name, prompt_tokens=3, output_tokens=output, calls=made)


def instance(*requests: Request) -> Instance:
    return Instance(
        name="by hand", limits=Limits(kv_tokens=5000, batch_tokens=512),
        cost=preset("study").cost, requests=requests,
    )  # fmt: skip


FOUR = instance(
    request("math-0", 30, (4, 1.0, 10), (21, 2.0, 20)),
    request("r1", 7),
    request("qa-2", 900, (300, 5.0, 0)),
    request("math-3", 12, (11, 6.0, 0)),
)


def arrays(phases: Phases) -> dict[str, list[float]]:
    return {name: getattr(phases, name).tolist() for name in phases.__dataclass_fields__}


def test_phases_by_hand() -> None:
    phases = arrays(true_phases(FOUR))
    assert phases == {
        "start": [0, 3, 4, 6, 8],
        "api_class": [0, 0, 0, 6, 1, 1, 0, 0],
        "calls": [True, True, False, False, True, False, True, False],
        "output_tokens": [4, 17, 9, 7, 300, 600, 11, 1],
        "duration_s": [1, 2, 0, 0, 5, 0, 6, 0],
        "response_tokens": [10, 20, 0, 0, 0, 0, 0, 0],
    }
    assert arrays(predict(FOUR, CLAIRVOYANT)) == phases


def test_mars_by_hand() -> None:
    phases = predict(FOUR, MARS)
    assert phases.output_tokens.tolist() == [5, 15, 5, 5, 305, 495, 15, 5]
    assert phases.duration_s.tolist() == [3, 3, 0, 0, 5, 0, 3, 0]  # math: (1 + 2 + 6) / 3
    assert phases.response_tokens.tolist() == [10, 10, 0, 0, 0, 0, 10, 0]


def test_length_bins_at_their_edges() -> None:
    lengths = np.array([1, 9, 10, 19, 20, 489, 490, 499, 500, 501, 5000], dtype=np.float64)
    bins = length_bins(lengths, np.zeros(lengths.size, dtype=np.int64))
    assert bins.tolist() == [5, 5, 15, 15, 25, 485, 495, 495, 495, 495, 495]


def test_class_means_keep_the_total_of_every_class() -> None:
    true = true_phases(augmented(300, rate=1, seed=4))
    means = class_means(true.output_tokens, true.api_class)
    for k in np.unique(true.api_class):
        ours, theirs = means[true.api_class == k], true.output_tokens[true.api_class == k]
        assert len(set(ours.tolist())) == 1
        assert ours[0] == pytest.approx(theirs.mean(), rel=1e-12)


def test_noise_is_normal_relative_to_the_true_value_and_seeded() -> None:
    workload = augmented(2000, rate=1, seed=4)
    true = true_phases(workload)

    def noisy(p: float, seed: int) -> Phases:
        return predict(workload, msgspec.structs.replace(CLAIRVOYANT, noise=p, seed=seed))

    assert arrays(noisy(0, 9)) == arrays(true)
    assert arrays(noisy(0.1, 1)) == arrays(noisy(0.1, 1))
    assert not np.array_equal(noisy(0.1, 1).duration_s, noisy(0.1, 2).duration_s)
    for name in ("output_tokens", "duration_s", "response_tokens"):
        exact = getattr(true, name)
        large = exact >= 20 if name != "duration_s" else exact > 0
        draws = getattr(noisy(0.1, 1), name)[large] / exact[large] - 1
        # Over thousands of draws the standard error of both is below 0.002.
        assert draws.mean() == pytest.approx(0, abs=0.006)
        assert draws.std() == pytest.approx(0.1, abs=0.006)
        assert np.allclose(getattr(noisy(0.05, 1), name)[large] / exact[large] - 1, draws / 2)
    strong = noisy(2, 1)
    assert strong.output_tokens.min() == 1
    assert strong.duration_s.min() == strong.response_tokens.min() == 0
    assert not strong.duration_s[~strong.calls].any()
    # Quantities have draws of their own.
    both = true.calls & (true.duration_s > 0) & (true.response_tokens >= 20)
    one, other = (
        getattr(noisy(0.1, 1), name)[both] / getattr(true, name)[both]
        for name in ("duration_s", "response_tokens")
    )
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


def test_noise_is_added_to_what_is_predicted() -> None:
    loud = predict(FOUR, msgspec.structs.replace(MARS, noise=0.01, seed=3))
    draws = predict(FOUR, msgspec.structs.replace(CLAIRVOYANT, noise=0.01, seed=3)).duration_s
    expected = predict(FOUR, MARS).duration_s + draws - true_phases(FOUR).duration_s
    assert loud.duration_s == pytest.approx(expected)
    assert loud.response_tokens[4] == 0  # the true response is 0, and so is its noise


def test_no_calls_at_all() -> None:
    phases = predict(instance(request("a", 5), request("b", 6)), MARS)
    assert phases.start.tolist() == [0, 1, 2]
    assert not phases.duration_s.any()
    assert not phases.calls.any()


def test_an_estimator_of_ones_own() -> None:
    pessimist = msgspec.structs.replace(CLAIRVOYANT, duration_s=lambda v, c: np.full(v.size, 60.0))
    assert predict(FOUR, pessimist).duration_s.tolist() == [60, 60, 0, 0, 60, 0, 60, 0]


def test_refused() -> None:
    for estimates in (np.zeros(3), np.array([1.0, 2.0, np.nan, 4.0])):
        broken = msgspec.structs.replace(CLAIRVOYANT, duration_s=lambda v, c, e=estimates: e)
        with pytest.raises(InvalidInputError, match="predictor of duration_s"):
            predict(FOUR, broken)
    for noise in (-0.1, float("nan")):
        with pytest.raises(InvalidInputError, match="noise"):
            msgspec.structs.replace(MARS, noise=noise)
    with pytest.raises(InvalidInputError, match="seed: got -1"):
        msgspec.structs.replace(MARS, seed=-1)
