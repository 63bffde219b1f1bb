"""Published traces to instances.

Each importer reads one published layout and refuses every other, so that a column is never taken
for something it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from optsched.errors import (
    InvalidInputError,
    UnknownNameError,
    require,
    require_count,
    require_nonnegative,
)
from optsched.instance import Instance, Limits, Request
from optsched.io.files import read_bytes
from optsched.io.presets import preset
from optsched.io.tables import MOST_TOKENS, count, read_table, seconds

Rows = list[tuple[float, int, int]]  # arrival in seconds, prompt tokens, output tokens

# As published; Python's own reader of dates takes much more (now, offsets).
_STAMP = re.compile(r"\d{4}-\d\d-\d\d (?:[01]\d|2[0-3]):\d\d:\d\d(?:\.(\d{1,9}))?", re.ASCII)

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
    host_kv_tokens: int = 0,
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
    return assembled(
        path, requests, preset_name=preset_name, kv_tokens=kv_tokens, batch_tokens=batch_tokens,
        host_kv_tokens=host_kv_tokens, leave_out_oversized=leave_out_oversized,
    )  # fmt: skip


def assembled(
    path: Path,
    requests: list[Request],
    *,
    preset_name: str,
    kv_tokens: int | None,
    batch_tokens: int | None,
    host_kv_tokens: int,
    leave_out_oversized: bool,
) -> tuple[Instance, list[str]]:
    """The instance of a trace's requests on a preset's machine, and the ids that it leaves out.

    Raises
    ------
    InvalidInputError
        Requests exceed M and may not be left out, or all of them do.
    """
    machine = preset(preset_name)
    limits = Limits(
        kv_tokens=kv_tokens or machine.kv_tokens,
        batch_tokens=batch_tokens or machine.batch_tokens,
        host_kv_tokens=host_kv_tokens,
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
    table = read_table(path, (_AZURE,))
    stamps = [_nanoseconds(path, line, row["TIMESTAMP"]) for line, row in table]
    first = min(stamps, default=0)
    return [
        (
            (stamp - first) / 1e9,
            count(path, line, row, "ContextTokens"),
            count(path, line, row, "GeneratedTokens"),
        )
        for stamp, (line, row) in zip(stamps, table, strict=True)
    ]


def _vidur_rows(path: Path) -> Rows:
    rows = []
    for line, row in read_table(path, (_VIDUR, _VIDUR_OFFLINE)):
        prompt = count(path, line, row, "num_prefill_tokens")
        output = count(path, line, row, "num_decode_tokens")
        if "num_total_tokens" in row:
            total = row["num_total_tokens"]
            require(
                total == str(prompt + output), f"{path}: line {line}: num_total_tokens", total,
                f"{prompt} + {output} = {prompt + output}",
            )  # fmt: skip
        arrival = seconds(path, line, row, "arrived_at") if "arrived_at" in row else 0.0
        rows.append((arrival, prompt, output))
    return rows


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
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInputError(
                f"{path}: line {n}: {error}",
                hint="expected JSON lines with timestamp, input_length, output_length, hash_ids",
            ) from None
        for name in ("input_length", "output_length"):
            require_count(f"{path}: line {n}: {name}", getattr(row, name), 1, MOST_TOKENS)
        require_nonnegative(f"{path}: line {n}: timestamp", row.timestamp)
        rows.append((row.timestamp / 1e3, row.input_length, row.output_length))
    return rows


LAYOUTS: dict[str, Callable[[Path], Rows]] = {
    "azure": _azure_rows,
    "vidur": _vidur_rows,
    "mooncake": _mooncake_rows,
}


def _nanoseconds(path: Path, line: int, text: str) -> int:
    """A time stamp like 2023-11-16 18:15:46.6805900, in nanoseconds since some date."""
    found = _STAMP.fullmatch(text)
    try:
        date = datetime.fromisoformat(text[:19]) if found else None
    except ValueError:  # a 13th month
        date = None
    if found is None or date is None:
        raise InvalidInputError(
            f"{path}: line {line}: TIMESTAMP: got {text[:40]!r}, "
            "expected a date and time like 2023-11-16 18:15:46.6805900"
        )
    whole = (date - datetime(1, 1, 1)) // timedelta(seconds=1)
    return whole * 10**9 + int((found[1] or "0").ljust(9, "0"))
