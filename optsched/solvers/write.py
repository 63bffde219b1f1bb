"""Writing a program to an MPS or LP file, every number to its last digit.

HiGHS's own writer rounds to 15 digits and renames columns it does not like, so the text is made
here. Floats are written with the fewest digits that read back as the same float.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from optsched.errors import InvalidInputError
from optsched.model.milp import Block, Milp

OFFSET_COLUMN = "objective_offset"


def write_model(milp: Milp, path: Path) -> None:
    """Write ``milp`` to ``path``: ``.mps`` (free format) or ``.lp`` (CPLEX format).

    Rows are called ``family_number``. Column names are kept; in LP files brackets become
    parentheses, because LP readers take them for quadratic terms, an offset is the cost of a
    column ``objective_offset`` fixed at 1, and a row with two finite sides becomes two.

    Raises
    ------
    InvalidInputError
        Another suffix, or a column name that the format cannot hold.
    """
    writers = {".mps": _mps_lines, ".lp": _lp_lines}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InvalidInputError(
            f"model file {str(path)!r}: unknown suffix {path.suffix!r}, expected .mps or .lp"
        )
    lines = writer(milp, _column_names(milp, path.suffix.lower()), row_names(milp))
    path.write_text("".join(lines), encoding="utf-8")


def write_numbered_mps(milp: Milp, path: Path) -> None:
    """MPS file whose columns are called c0, c1, ... and rows r0, r1, ... for a solver to read."""
    columns = [f"c{i}" for i in range(milp.columns)]
    rows = [f"r{i}" for i in range(milp.rows)]
    path.write_text("".join(_mps_lines(milp, columns, rows)), encoding="ascii")


def row_names(milp: Milp) -> list[str]:
    """``family_number`` for every row; families of equal name are numbered on."""
    counts: Counter[str] = Counter()
    names = []
    for rows in milp.blocks:
        first = counts[rows.name]
        safe = re.sub(r"[^A-Za-z0-9_.]", "_", rows.name)
        names += [f"{safe}_{i}" for i in range(first, first + rows.rows)]
        counts[rows.name] += rows.rows
    return names


def _column_names(milp: Milp, suffix: str) -> list[str]:
    names = list(milp.column_names)
    allowed = re.compile(r"\S+")
    if suffix == ".lp":
        names = [name.replace("[", "(").replace("]", ")") for name in names]
        allowed = re.compile(r"(?![eE.0-9])[A-Za-z0-9_.,;!#$%&(){}~'`@?|]+|[eE](?![-+0-9])\S*")
    for name, original in zip(names, milp.column_names, strict=True):
        if not allowed.fullmatch(name):
            raise InvalidInputError(
                f"column name {original!r}: not allowed in {suffix} files",
                hint="write an .mps file" if suffix == ".lp" else "names have no blanks",
            )
    if len(set(names)) != len(names):
        raise InvalidInputError("column names: two are equal, expected unique names")
    return names


def _mps_lines(milp: Milp, columns: Sequence[str], rows: Sequence[str]) -> Iterator[str]:
    matrix, rows = _reproducible_ranges(milp.matrix(), list(rows))
    low, high = matrix.lower, matrix.upper
    yield f"NAME          {re.sub(chr(92) + 's+', '_', milp.name)}\nROWS\n N  objective\n"
    kinds = [_kind(lo, hi) for lo, hi in zip(low.tolist(), high.tolist(), strict=True)]
    yield from (f" {kind[0]}  {name}\n" for kind, name in zip(kinds, rows, strict=True))
    yield "COLUMNS\n"
    yield from _mps_columns(milp, matrix, columns, rows)
    yield "RHS\n"
    if milp.offset:
        yield _fields("", "RHS", "objective", -milp.offset)
    yield from (_fields("", "RHS", n, k[1]) for k, n in zip(kinds, rows, strict=True) if k[1])
    if any(kind[2] for kind in kinds):
        yield "RANGES\n"
        yield from (_fields("", "RANGE", n, k[2]) for k, n in zip(kinds, rows, strict=True) if k[2])
    yield "BOUNDS\n"
    for name, lo, hi in zip(columns, milp.lower.tolist(), milp.upper.tolist(), strict=True):
        if lo == hi:
            yield _fields("FX", "BOUND", name, lo)
            continue
        yield _fields("LO", "BOUND", name, lo) if np.isfinite(lo) else _fields("MI", "BOUND", name)
        yield _fields("UP", "BOUND", name, hi) if np.isfinite(hi) else _fields("PL", "BOUND", name)
    yield "ENDATA\n"


def _fields(kind: str, first: str, second: str, value: float | None = None) -> str:
    """A line with fields at the columns of fixed MPS, by which CBC tells the two formats apart."""
    return f" {kind:<2} {first:<8}  {second:<8}  {'' if value is None else repr(value)}\n"


def _mps_columns(
    milp: Milp, matrix: Block, columns: Sequence[str], rows: Sequence[str]
) -> Iterator[str]:
    order = np.argsort(matrix.columns, kind="stable")
    at = matrix.entry_rows()[order].tolist()
    values = matrix.values[order].tolist()
    ends = np.searchsorted(matrix.columns[order], np.arange(milp.columns), side="right").tolist()
    first, within, marks = 0, False, 0
    for j, (name, cost, integer) in enumerate(
        zip(columns, milp.cost.tolist(), milp.integer.tolist(), strict=True)
    ):
        if integer != within:
            yield _marker(marks, opening=integer)
            within, marks = integer, marks + 1
        yield _fields("", name, "objective", cost)
        for k in range(first, ends[j]):
            yield _fields("", name, rows[at[k]], values[k])
        first = ends[j]
    if within:
        yield _marker(marks, opening=False)


def _marker(number: int, *, opening: bool) -> str:
    name, kind = f"MARK{number:04}", "'INTORG'" if opening else "'INTEND'"
    return f"    {name:<8}  {chr(39)}MARKER{chr(39)}                 {kind}\n"


def _kind(low: float, high: float) -> tuple[str, float, float]:
    """MPS row type, right-hand side, and range (0 if none)."""
    if low == high:
        return "E", low, 0.0
    if low == -np.inf:
        return ("N", 0.0, 0.0) if high == np.inf else ("L", high, 0.0)
    if high == np.inf:
        return "G", low, 0.0
    width = _width(low, high)
    assert width is not None, "ranges were made reproducible"
    return ("L", high, width) if high - width == low else ("G", low, width)


def _width(low: float, high: float) -> float | None:
    """A range that gives back both sides exactly, if there is one.

    A reader computes high - width or low + width, each rounded once.
    """
    middle = high - low
    for width in (middle, float(np.nextafter(middle, np.inf)), float(np.nextafter(middle, 0.0))):
        if high - width == low or low + width == high:
            return width
    return None


def _reproducible_ranges(matrix: Block, names: list[str]) -> tuple[Block, list[str]]:
    """Split into two the rows whose sides an MPS range cannot give back exactly."""
    ranged = np.isfinite(matrix.lower) & np.isfinite(matrix.upper) & (matrix.lower < matrix.upper)
    split = [
        int(r)
        for r in np.flatnonzero(ranged)
        if _width(float(matrix.lower[r]), float(matrix.upper[r])) is None
    ]
    if not split:
        return matrix, names
    chosen = np.isin(np.arange(matrix.rows), split)
    copies = matrix.select(chosen)
    lower, upper = matrix.lower.copy(), matrix.upper.copy()
    lower[chosen], copy_upper = -np.inf, np.full(copies.rows, np.inf)
    whole = Block(
        name=matrix.name,
        lower=np.concatenate((lower, copies.lower)),
        upper=np.concatenate((upper, copy_upper)),
        starts=np.concatenate((matrix.starts, matrix.starts[-1] + copies.starts[1:])),
        columns=np.concatenate((matrix.columns, copies.columns)),
        values=np.concatenate((matrix.values, copies.values)),
    )
    return whole, names + [f"{names[r]}_lower" for r in split]


def _lp_lines(milp: Milp, columns: Sequence[str], rows: Sequence[str]) -> Iterator[str]:
    if not milp.columns:
        raise InvalidInputError(f"{milp.name}: no columns, an LP file needs one")
    matrix = milp.matrix()
    yield "minimize\n objective:"
    yield _terms(milp.cost.tolist(), columns)
    yield f"\n {'+' if milp.offset >= 0 else '-'} {abs(milp.offset)!r} {OFFSET_COLUMN}\n"
    yield "subject to\n"
    names, values = [columns[j] for j in matrix.columns.tolist()], matrix.values.tolist()
    starts = matrix.starts.tolist()
    for r, (low, high) in enumerate(zip(matrix.lower.tolist(), matrix.upper.tolist(), strict=True)):
        here = slice(starts[r], starts[r + 1])
        terms = _terms(values[here], names[here]) or f" 0.0 {columns[0]}"
        if low == high:
            yield f" {rows[r]}:{terms} = {low!r}\n"
            continue
        both = np.isfinite(low) and np.isfinite(high)
        if np.isfinite(low):
            yield f" {rows[r]}{'_lower' if both else ''}:{terms} >= {low!r}\n"
        if np.isfinite(high):
            yield f" {rows[r]}:{terms} <= {high!r}\n"
    yield "bounds\n"
    for name, lo, hi in zip(columns, milp.lower.tolist(), milp.upper.tolist(), strict=True):
        yield f" {_lp_number(lo)} <= {name} <= {_lp_number(hi)}\n"
    yield f" {OFFSET_COLUMN} = 1\n"
    integers = np.flatnonzero(milp.integer).tolist()
    if integers:
        yield "general\n"
        yield from (f" {columns[j]}\n" for j in integers)
    yield "end\n"


def _terms(values: list[float], names: Sequence[str]) -> str:
    parts = [
        f"{' ' if i % 5 else chr(10) + '  '}{'+' if value >= 0 else '-'} {abs(value)!r} {name}"
        for i, (value, name) in enumerate(zip(values, names, strict=True))
    ]
    return "".join(parts)


def _lp_number(value: float) -> str:
    return repr(value) if np.isfinite(value) else ("+inf" if value > 0 else "-inf")
