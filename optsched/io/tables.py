"""Published CSV tables, read strictly: one known header, whole rows, numbers in plain digits."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from optsched.errors import InvalidInputError, require
from optsched.io.files import read_bytes

Row = dict[str, str]
MOST_TOKENS = 10**7  # of one request

# As published; Python's own readers of numbers take much more (1_000, +1, nan, other scripts).
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"\d+(\.\d*)?(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)


def read_table(path: Path, layouts: tuple[tuple[str, ...], ...]) -> list[tuple[int, Row]]:
    """Rows of a CSV file whose header is one of ``layouts``, each with the line that it ends on.

    Raises
    ------
    InvalidInputError
        The file is no CSV text, has other columns, or a row with too few or too many fields.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: is no text file, expected CSV") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(reader.fieldnames or ())
        if header not in layouts:
            expected = " or ".join(",".join(layout) for layout in layouts)
            raise InvalidInputError(
                f"{path}: columns are {','.join(header)[:200] or 'missing'}, expected {expected}",
                hint="other layouts are refused rather than guessed at",
            )
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        line = reader.reader.line_num  # the outer one stands before the broken row
        raise InvalidInputError(
            f"{path}: line {line}: {error}", hint="is a quotation mark not closed?"
        ) from None
    for line, row in rows:
        if None in row or None in row.values():
            raise InvalidInputError(f"{path}: line {line} has not {len(header)} fields")
    return rows


def count(path: Path, line: int, row: Row, column: str, at_least: int = 1) -> int:
    """The whole number in ``column``; raises :class:`InvalidInputError` for anything else."""
    text = row[column]
    value = int(text) if _DIGITS.fullmatch(text) else -1
    require(
        at_least <= value <= MOST_TOKENS, f"{path}: line {line}: {column}", text[:40],
        f"a whole number from {at_least} to {MOST_TOKENS}, in digits only",
    )  # fmt: skip
    return value


def seconds(path: Path, line: int, row: Row, column: str) -> float:
    """The finite time in ``column``; raises :class:`InvalidInputError` for anything else."""
    text = row[column]
    value = float(text) if _DECIMAL.fullmatch(text) else -1.0
    require(0 <= value < float("inf"), f"{path}: line {line}: {column}", text[:40], "seconds >= 0")
    return value
