"""Model files read back as they were, to the last digit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched.errors import InvalidInputError
from optsched.model.milp import Milp
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions
from optsched.solvers.write import OFFSET_COLUMN, row_names, write_model
from tests.solvers.programs import (
    INFINITY,
    dense,
    optimum,
    program,
    random_integer_program,
    read_model,
)


def awkward(rng: np.random.Generator) -> Milp:
    """Full-precision numbers, every kind of row and bound, an empty row and an unused column."""
    n, m = 12, 9
    a = rng.normal(size=(m, n)) / 3 * (rng.random((m, n)) < 0.5)
    a[:, 7] = 0
    a[4] = 0
    lower, upper = rng.normal(size=m) - 3, rng.normal(size=m) + 3
    lower[:3], upper[2:5] = -INFINITY, INFINITY
    lower[2] = 1e-7 / 3
    lower[4] = -1
    upper[8] = lower[8] = 1 / 3
    low, high = -rng.random(n), rng.random(n)
    low[::4], high[::3] = -INFINITY, INFINITY
    low[5] = high[5] = 2 / 3
    milp = program(
        (rng.normal(size=n) / 7).tolist(),
        dense(a[:5].tolist(), lower[:5].tolist(), upper[:5].tolist(), name="kv capacity"),
        dense(a[5:].tolist(), lower[5:].tolist(), upper[5:].tolist(), name="progress"),
        lower=low.tolist(),
        upper=high.tolist(),
        integer=(np.arange(n) % 3 == 0).tolist(),
        offset=-1 / 7,
    )
    return replace(milp, column_names=tuple(f"p[{j},2]" for j in range(n)))


def entries(milp: Milp) -> list[tuple[int, int, float]]:
    rows = milp.matrix()
    return sorted(
        zip(rows.entry_rows().tolist(), rows.columns.tolist(), rows.values.tolist(), strict=True)
    )


def test_mps_round_trip_is_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(60)
    for _ in range(20):
        milp = awkward(rng)
        write_model(milp, tmp_path / "m.mps")
        again = read_model(tmp_path / "m.mps")
        assert again.column_names == milp.column_names
        assert again.offset == milp.offset
        for name in ("cost", "lower", "upper", "integer"):
            assert np.array_equal(getattr(again, name), getattr(milp, name)), name
        rows = milp.matrix()
        got, split = again.matrix(), again.rows - milp.rows
        if not split:
            assert np.array_equal(got.lower, rows.lower)
            assert np.array_equal(got.upper, rows.upper)
            assert entries(again) == entries(milp)
        else:
            # Sides that no MPS range gives back exactly: the lower ones are rows of their own.
            lower = got.lower[: milp.rows].copy()
            lower[lower != rows.lower] = got.lower[milp.rows :]
            assert np.array_equal(lower, rows.lower)
            assert np.array_equal(got.upper[: milp.rows], rows.upper)


def test_lp_round_trip_is_exact(tmp_path: Path) -> None:
    milp = awkward(np.random.default_rng(61))
    write_model(milp, tmp_path / "m.lp")
    again = read_model(tmp_path / "m.lp")
    assert again.column_names == (
        *(name.replace("[", "(").replace("]", ")") for name in milp.column_names), OFFSET_COLUMN,
    )  # fmt: skip
    n = milp.columns
    assert again.cost[n] == milp.offset
    assert again.lower[n] == again.upper[n] == 1
    for name in ("cost", "lower", "upper", "integer"):
        assert np.array_equal(getattr(again, name)[:n], getattr(milp, name)), name
    assert {v for _, _, v in entries(again)} == {v for _, _, v in entries(milp)}


@pytest.mark.parametrize("suffix", [".mps", ".lp", ".MPS"])
def test_files_have_the_same_optimum(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(62)
    for k in range(30):
        milp = random_integer_program(rng)
        best = optimum(milp)
        path = tmp_path / f"m{k}{suffix}"
        write_model(milp, path)
        if suffix == ".MPS":
            path = path.rename(path.with_suffix(".mps"))
        again = read_model(path)
        outcome = solver("highs")(again, SolverOptions())
        if best is None:
            assert outcome.point is None
        else:
            assert outcome.point is not None
            assert again.value(outcome.point) == pytest.approx(best, rel=1e-6, abs=1e-12)


def test_rows_are_called_after_their_family() -> None:
    milp = awkward(np.random.default_rng(61)).with_blocks(dense([[1] * 12], 0, 9, name="progress"))
    names = row_names(milp)
    assert names[0] == "kv_capacity_0"
    assert names[-2:] == ["progress_3", "progress_4"]
    assert len(set(names)) == len(names)


def test_other_suffixes_and_names_are_refused(tmp_path: Path) -> None:
    milp = program([1.0])
    with pytest.raises(InvalidInputError, match=r"expected \.mps or \.lp"):
        write_model(milp, tmp_path / "m.txt")
    for bad in ("a+b", "e5", "2x", "x y"):
        with pytest.raises(InvalidInputError, match=r"not allowed in \.lp"):
            write_model(replace(milp, column_names=(bad,)), tmp_path / "m.lp")
    with pytest.raises(InvalidInputError, match="unique"):
        write_model(replace(program([1.0, 1.0]), column_names=("x[1]", "x(1)")), tmp_path / "m.lp")
