"""The convex law of a batch's tokens and the lines below it."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

from optsched.bounds.token_time import TokenLaw, lines, token_law
from optsched.cost import CostModel
from optsched.io.presets import preset
from tests.tiny import random_cost

LAWS = [random_cost(random.Random(seed)).pieces for seed in range(40)] + [
    ((-5e-4, 1e-3),),
    ((-2e-3, 4e-3), (-5e-3, 6e-3)),
    ((3e-3, 0.0),),
]


def law_of(pieces: tuple[tuple[float, float], ...], tokens: int = 24) -> TokenLaw:
    return token_law(CostModel(pieces=pieces), tokens)


@pytest.mark.parametrize("pieces", LAWS)
def test_the_law_is_g_at_whole_numbers_and_convex(pieces: tuple[tuple[float, float], ...]) -> None:
    law = law_of(pieces)
    whole = np.arange(1, 25)
    assert law.time(whole) == pytest.approx(CostModel(pieces=pieces).token_time(whole))
    assert np.all(np.diff(law.slopes_s) >= -1e-15)
    assert law.time(0) >= 0


@pytest.mark.parametrize("pieces", LAWS)
def test_every_line_and_its_excess_stay_below_the_law(
    pieces: tuple[tuple[float, float], ...],
) -> None:
    law = law_of(pieces)
    whole = np.arange(0, 25)
    found = lines(law)
    assert found
    for line in found:
        over = np.maximum(0, whole - line.knee_tokens)
        value = line.intercept_s + line.slope_s * whole + line.excess_s * over
        assert line.intercept_s >= 0
        assert np.all(value <= law.time(whole) + 1e-12)
        assert line.intercept_s + line.slope_s * line.knee_tokens == pytest.approx(
            float(law.time(line.knee_tokens))
        )


def test_a_knot_between_whole_numbers_gives_a_chord_above_both_pieces() -> None:
    law = law_of(((1.0, 0.0), (-4.0, 2.0)))  # they meet at 2.5
    assert law.nodes.tolist() == [0, 1, 2, 3, 24]
    assert float(law.time(2.5)) == 1.5


@functools.cache
def least_total(pieces: tuple[tuple[float, float], ...], tokens: int, batches: int) -> float:
    """Least sum of g over batches with at least one token each, by trying all splits."""
    g = CostModel(pieces=pieces).token_time
    if batches == 1:
        return float(g(tokens))
    return min(
        float(g(n)) + least_total(pieces, tokens - n, batches - 1)
        for n in range(1, tokens - batches + 2)
    )


@pytest.mark.parametrize("pieces", LAWS[::5] + LAWS[-3:])
@pytest.mark.parametrize("tokens", [1, 5, 12])
def test_balanced_and_least_equal_trying_all_splits(
    pieces: tuple[tuple[float, float], ...], tokens: int
) -> None:
    law = law_of(pieces)
    every = {n: least_total(pieces, tokens, n) for n in range(1, tokens + 1)}
    for batches, value in every.items():
        assert float(law.balanced(tokens, batches)) == pytest.approx(value)
        best = min(v for n, v in every.items() if n >= batches)
        assert float(law.least(tokens, batches)) == pytest.approx(best)


def test_least_respects_the_tokens_of_a_batch() -> None:
    law = law_of(((1.0, 0.0),), tokens=4)
    assert float(law.least(9, 1)) == 3.0


def test_the_knots_of_a_preset() -> None:
    law = token_law(preset("llama3-70b-4xa100").cost, 16384)
    assert law.nodes.tolist() == [0, 1, 127, 128, 16384]
