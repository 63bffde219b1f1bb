"""Published traces to instances.

Each importer reads one published layout and refuses every other, so that a column is never taken
for something it is not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from optsched.errors import (
    InvalidInputError,
    UnknownNameError,
    require,
    require_count,
    require_nonnegative,
)
from optsched.instance import Instance, Limits, Request
from optsched.io.decode import read_bytes
from optsched.io.presets import preset

Rows = list[tuple[float, int, int]]  # arrival in seconds, prompt tokens, output tokens

_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_VIDUR = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
_VIDUR_OFFLINE = ("num_prefill_tokens", "num_decode_tokens", "num_total_tokens", "pd_ratio")


def import_trace(
    layout: str,
    path: str | Path,
    *,
    preset_name: str,
    limit: int | None = None,
    offline: bool = False,
    kv_tokens: int | None = None,
    batch_tokens: int | None = None,
    leave_out_oversized: bool = False,
) -> tuple[Instance, list[str]]:
    """Instance from a published trace, and the ids of requests that were left out.

    Parameters
    ----------
    layout : {"azure", "vidur", "mooncake"}
        ``azure``: the Azure LLM inference traces of 2023 (Patel et al., Splitwise, ISCA 2024);
        ``vidur``: the processed traces of Vidur (Agrawal et al., MLSys 2024); ``mooncake``: the
        JSON lines of Mooncake (Qin et al., FAST 2025), whose prefix hashes are not used.
    preset_name : str
        Cost preset; it also gives M and C where ``kv_tokens`` and ``batch_tokens`` do not.
    limit : int, optional
        Keep only the first ``limit`` requests.
    offline : bool
        Let all requests arrive at once.
    leave_out_oversized : bool
        Leave out requests that exceed M instead of refusing the trace.

    Raises
    ------
    InvalidInputError
        The file has other columns, a value that is no number, or a request that exceeds M.
    """
    path = Path(path)
    if layout not in LAYOUTS:
        raise UnknownNameError("trace layout", layout, LAYOUTS)
    rows = LAYOUTS[layout](path)
    require(bool(rows), str(path), "no rows", "at least one request")
    machine = preset(preset_name)
    first = min(arrival for arrival, _, _ in rows[:limit])
    requests = [
        Request(
            id=f"r{index}",
            prompt_tokens=prompt,
            output_tokens=output,
            # Rounded to the nanosecond: the difference of two time stamps has no more digits.
            arrival_s=0.0 if offline else round(arrival - first, 9),
        )
        for index, (arrival, prompt, output) in enumerate(rows[:limit])
    ]
    limits = Limits(
        kv_tokens=kv_tokens or machine.kv_tokens, batch_tokens=batch_tokens or machine.batch_tokens
    )
    oversized = [r.id for r in requests if r.final_tokens > limits.kv_tokens]
    if oversized and not leave_out_oversized:
        raise InvalidInputError(
            f"{path}: {len(oversized)} of {len(requests)} requests need more than kv_tokens = "
            f"{limits.kv_tokens}: {', '.join(oversized[:5])}{' ...' if len(oversized) > 5 else ''}",
            hint="raise --kv-tokens, or leave them out with --leave-out-oversized",
        )
    drop = set(oversized)
    instance = Instance(
        name=path.stem,
        limits=limits,
        cost=machine.cost,
        requests=tuple(r for r in requests if r.id not in drop),
    )
    return instance, oversized


def _azure_rows(path: Path) -> Rows:
    table = _table(path, (_AZURE,))
    try:
        stamps = np.array([row["TIMESTAMP"] for row in table], dtype="datetime64[ns]")
    except ValueError as error:
        raise InvalidInputError(f"{path}: TIMESTAMP: {error}", hint="as in the release") from None
    nanoseconds = (stamps - stamps.min()).astype(np.int64).tolist() if table else []
    return [
        (
            since / 1e9,
            _count(path, n, row, "ContextTokens"),
            _count(path, n, row, "GeneratedTokens"),
        )
        for n, (since, row) in enumerate(zip(nanoseconds, table, strict=True), start=2)
    ]


def _vidur_rows(path: Path) -> Rows:
    return [
        (
            _seconds(path, n, row),
            _count(path, n, row, "num_prefill_tokens"),
            _count(path, n, row, "num_decode_tokens"),
        )
        for n, row in enumerate(_table(path, (_VIDUR, _VIDUR_OFFLINE)), start=2)
    ]


class _MooncakeRow(msgspec.Struct, forbid_unknown_fields=True):
    """One line; ``timestamp`` is milliseconds."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def _mooncake_rows(path: Path) -> Rows:
    rows = []
    for n, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            row = msgspec.json.decode(line, type=_MooncakeRow)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                f"{path}: line {n}: {error}",
                hint="expected JSON lines with timestamp, input_length, output_length, hash_ids",
            ) from None
        for name in ("input_length", "output_length"):
            require_count(f"{path}: line {n}: {name}", getattr(row, name), 1)
        require_nonnegative(f"{path}: line {n}: timestamp", row.timestamp)
        rows.append((row.timestamp / 1e3, row.input_length, row.output_length))
    return rows


LAYOUTS: dict[str, Callable[[Path], Rows]] = {
    "azure": _azure_rows,
    "vidur": _vidur_rows,
    "mooncake": _mooncake_rows,
}


def _table(path: Path, layouts: tuple[tuple[str, ...], ...]) -> list[dict[str, str]]:
    """Rows of a CSV file whose header is one of ``layouts``."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: is no text file, expected CSV") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    header = tuple(reader.fieldnames or ())
    if header not in layouts:
        expected = " or ".join(",".join(layout) for layout in layouts)
        raise InvalidInputError(
            f"{path}: columns are {','.join(header)[:200] or 'missing'}, expected {expected}",
            hint="other layouts are refused rather than guessed at",
        )
    rows = list(reader)
    for n, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise InvalidInputError(f"{path}: line {n} has not {len(header)} fields")
    return rows


def _count(path: Path, line: int, row: dict[str, str], column: str) -> int:
    try:
        value = int(row[column])
    except ValueError:
        value = 0
    require(value >= 1, f"{path}: line {line}: {column}", row[column], "a whole number >= 1")
    return value


def _seconds(path: Path, line: int, row: dict[str, str]) -> float:
    try:
        value = float(row.get("arrived_at", "0"))
    except ValueError:
        value = -1.0
    require(
        0 <= value < float("inf"), f"{path}: line {line}: arrived_at", row.get("arrived_at"),
        "seconds >= 0",
    )  # fmt: skip
    return value
