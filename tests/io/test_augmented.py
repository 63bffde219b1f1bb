"""The augmented workload: seeded, and with the figures per class of the published one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.instance import Request
from optsched.io import format_instance
from optsched.io.api_classes import CLASSES, class_of, request_id
from optsched.io.augmented import augmented

# Rows of the published table: calls per request, mean duration in seconds and its largest, mean
# response, mean prompt, mean output per segment, mean final context. The calls are those that
# something is generated after: one less per request of ve, image and tts. There a response is a
# mean over all calls, and the last one's is not in the context.
TABLE = {
    "math": (2.81, 8.3e-5, 6.0e-4, 21.0, 405, 125, 939),
    "qa": (3.04, 0.709, 1.03, 56.7, 934, 183, 1847),
    "ve": (5.35 - 1, 0.085, 0.11, 10.2, 1973, 4, 2049 - 16),
    "chatbot": (3.46, 28.2, 60, 39.7, 108, 114, 753),
    "image": (6.92 - 1, 18.5, 60, None, 108, 32.8, 500 - 59),
    "tts": (6.92 - 1, 15.3, 60, None, 108, 32.8, 504 - 59),
}


@pytest.fixture(scope="module")
def by_class() -> dict[str, list[Request]]:
    found = defaultdict(list)
    for request in augmented(10_000, rate=2, seed=1).requests:
        found[class_of(request.id)].append(request)
    return found


@pytest.mark.parametrize("name", TABLE)
def test_figures_of_the_table(by_class: dict[str, list[Request]], name: str) -> None:
    requests = by_class[name]
    calls = [call for r in requests for call in r.calls]
    counted, duration_s, longest_s, response, prompt, segment, final = TABLE[name]
    assert len(calls) / len(requests) == pytest.approx(counted, rel=0.06)
    assert np.mean([c.duration_s for c in calls]) == pytest.approx(duration_s, rel=0.04)
    assert max(c.duration_s for c in calls) <= longest_s
    if response is not None:
        assert np.mean([c.response_tokens for c in calls]) == pytest.approx(response, rel=0.08)
    assert np.mean([r.prompt_tokens for r in requests]) == pytest.approx(prompt, rel=0.08)
    segments = sum(len(r.calls) + 1 for r in requests)
    assert sum(r.output_tokens for r in requests) / segments == pytest.approx(segment, rel=0.03)
    assert np.mean([r.final_tokens for r in requests]) == pytest.approx(final, rel=0.05)


def test_mix_of_classes_and_arrivals(by_class: dict[str, list[Request]]) -> None:
    for name, api_class in CLASSES.items():
        assert len(by_class[name]) == pytest.approx(10_000 * api_class.requests / 397, rel=0.1)
    last = max(r.arrival_s for requests in by_class.values() for r in requests)
    assert last == pytest.approx(10_000 / 2, rel=0.04)


def test_dialogues_alternate_between_calls_of_the_model_and_the_user(
    by_class: dict[str, list[Request]],
) -> None:
    for request in by_class["image"]:
        assert len(request.calls) % 2 == 1
        assert all(call.response_tokens == 8 for call in request.calls[::2])
        ends = [0, *(call.after_tokens for call in request.calls), request.output_tokens]
        assert set(np.diff(ends)[1::2].tolist()) == {7}


def test_every_request_fits_in_20000_tokens(by_class: dict[str, list[Request]]) -> None:
    assert max(r.final_tokens for requests in by_class.values() for r in requests) < 20_000
    largest = {
        name: c.prompt_tokens.largest
        + c.rounds.largest
        * sum(t.output_tokens.largest + t.response_tokens.largest for t in c.turns)
        + (c.closing_tokens.largest if c.closing_tokens else 0)
        for name, c in CLASSES.items()
    }
    assert max(largest.values()) < 20_000


def test_same_seed_same_bytes() -> None:
    first, second = (format_instance(augmented(100, rate=4, seed=7)) for _ in range(2))
    assert first == second
    assert first != format_instance(augmented(100, rate=4, seed=8))


def test_rates_scale_the_same_requests() -> None:
    slow, fast = augmented(50, rate=1, seed=2), augmented(50, rate=4, seed=2)
    assert [r.calls for r in slow.requests] == [r.calls for r in fast.requests]
    assert np.allclose(slow.release_s, 4 * fast.release_s, atol=4e-6)
    assert augmented(5, rate=0).offline


def test_limits_and_classes() -> None:
    instance = augmented(60, rate=1, classes=("ve", "qa"), kv_tokens=20_000, host_kv_tokens=9)
    assert {class_of(r.id) for r in instance.requests} == {"ve", "qa"}
    assert (instance.limits.kv_tokens, instance.limits.host_kv_tokens) == (20_000, 9)


def test_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean math"):
        augmented(4, rate=1, classes=("mth",))
    for rate in (-1, 1e-320, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="rate"):
            augmented(4, rate=rate)
    with pytest.raises(InvalidInputError, match="seed: got -1"):
        augmented(4, rate=1, seed=-1)
    with pytest.raises(InvalidInputError, match="requests: got 1000001"):
        augmented(1_000_001, rate=1)


def test_an_id_names_one_of_the_six_classes_or_none() -> None:
    assert all(class_of(request_id(name, 12)) == name for name in CLASSES)
    assert [class_of(name) for name in ("r0", "math", "math7", "sql-3", "-", "", "a-math-3")] == [
        ""
    ] * 7
