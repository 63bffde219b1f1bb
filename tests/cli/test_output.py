"""Numbers as they are printed."""

from __future__ import annotations

import math

import pytest

from optsched.cli.output import seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (math.inf, "-"), (math.nan, "-"), (0.0, "0.0000000"),
        (0.12883788, "0.1288379"), (2.0, "2.00000"), (12.3456789, "12.34568"),
        (371.62, "371.62"), (347.6, "347.60"), (6536.4, "6536.40"), (99_999.99, "99999.99"),
        # From here on the look of ordinary values has more than seven digits.
        (99_999.996, "100000.0"), (123_456.78, "123456.8"), (1_234_567.8, "1234568"),
        (9_999_999.7, "1.000000e+07"), (12_345_678.9, "1.234568e+07"), (1e300, "1.000000e+300"),
        (1e-6, "0.0000010"), (9.87654321e-7, "9.876543e-07"), (1e-300, "1.000000e-300"),
        (-371.62, "-371.62"), (-1e-9, "-1.000000e-09"),
    ],
)  # fmt: skip
def test_seconds(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_at_most_seven_significant_digits_at_any_magnitude() -> None:
    for exponent in range(-320, 308):
        for lead in (1.0, 1.23456789, 9.99999949, 9.9999996):
            value = float(f"{lead}e{exponent}")
            digits = seconds(value).partition("e")[0].replace(".", "").lstrip("0")
            assert len(digits) <= 7
            assert digits
            assert float(seconds(value)) == pytest.approx(value, rel=0.05)
