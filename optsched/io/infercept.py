"""The API workload of INFERCEPT and MARS, read from its table of segments."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np

from optsched.errors import InvalidInputError, UnknownNameError, require
from optsched.instance import Call, Instance, Request
from optsched.io.api_classes import CLASSES, chosen_classes, request_id
from optsched.io.arrivals import poisson_arrivals
from optsched.io.importers import assembled
from optsched.io.tables import Row, count, read_table, seconds

LAYOUT = "infercept"
_COLUMNS = (
    "api_class", "request", "segment", "new_prompt_tokens", "prompt_tokens_as_recorded",
    "completion_tokens", "api_time_s", "api_return_tokens",
)  # fmt: skip
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
Segments = list[tuple[int, Row]]  # of one request: line, row


def import_infercept(
    path: str | Path,
    *,
    preset_name: str,
    rate: float,
    seed: int = 0,
    classes: tuple[str, ...] | None = None,
    limit: int | None = None,
    kv_tokens: int | None = None,
    batch_tokens: int | None = None,
    host_kv_tokens: int = 0,
    leave_out_oversized: bool = False,
) -> tuple[Instance, list[str]]:
    """Requests with calls from the table of segments, and the ids of those that were left out.

    A row is a segment: what the request generates up to a call, the call's duration and what it
    returns. A call in the last segment ends the request: nothing is generated after it, so it is
    absent from the instance. The context that the table records before each segment is not used;
    it differs by about 1 % from the sum of the lengths (re-tokenised).

    The table has no arrivals and is sorted by class. Requests are put in an order drawn with
    ``seed``, each of them once, and arrive in it as a Poisson process of ``rate`` per second
    (INFERCEPT and MARS: 1 to 6). With the same seed every rate has the same order.

    Parameters
    ----------
    rate : float
        Requests per second; 0 lets all arrive at once.
    classes : tuple of str, optional
        Only requests of these classes; all six if not given.
    limit : int, optional
        Keep only the first ``limit`` requests to arrive.
    host_kv_tokens : int
        Host memory for swapped KV.
    leave_out_oversized : bool
        Leave out requests that exceed M instead of refusing the table.

    Returns
    -------
    Instance
        Its requests are called ``CLASS-NUMBER``, with the number of the table.
    list of str
        Ids of the requests that exceed M, if they are to be left out.

    Raises
    ------
    InvalidInputError
        The file has other columns or a value out of range (line and column are named), segments
        are missing, or a request exceeds M.
    UnknownNameError
        A class or the preset does not exist.
    """
    path = Path(path)
    chosen = chosen_classes(classes)
    require(seed >= 0, "seed", seed, "a whole number >= 0")
    requests = [_request(path, segments) for segments in _by_request(path)]
    wanted = [request for name, request in requests if name in chosen]
    require(bool(wanted), str(path), "no requests", f"a request of {', '.join(chosen)}")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(wanted)).tolist()
    arrivals = poisson_arrivals(rng, len(wanted), rate).tolist()
    arriving = [
        msgspec.structs.replace(wanted[i], arrival_s=arrival_s)
        for i, arrival_s in zip(order, arrivals, strict=True)
    ]
    return assembled(
        path, arriving[:limit], preset_name=preset_name, kv_tokens=kv_tokens,
        batch_tokens=batch_tokens, host_kv_tokens=host_kv_tokens,
        leave_out_oversized=leave_out_oversized,
    )  # fmt: skip


def _by_request(path: Path) -> list[Segments]:
    """The rows of every request, whose segments must count up from 0."""
    requests: dict[int, Segments] = {}
    for line, row in read_table(path, (_COLUMNS,)):
        segments = requests.setdefault(count(path, line, row, "request", at_least=0), [])
        require(
            row["segment"] == str(len(segments)), f"{path}: line {line}: segment",
            row["segment"][:40], f"{len(segments)}: the segments of a request count up from 0",
        )  # fmt: skip
        segments.append((line, row))
    return list(requests.values())


def _request(path: Path, segments: Segments) -> tuple[str, Request]:
    """Class and request (arriving at 0) of the rows in ``segments``."""
    line, row = segments[0]
    name = row["api_class"]
    if name not in CLASSES:
        unknown = UnknownNameError("API class", name[:40], CLASSES)
        raise InvalidInputError(
            f"{path}: line {line}: api_class: {unknown.message}", hint=unknown.hint
        )
    prompt = count(path, line, row, "new_prompt_tokens")
    output = 0
    calls = []
    for k, (line, row) in enumerate(segments):
        place = f"{path}: line {line}"
        require(
            row["api_class"] == name, f"{place}: api_class", row["api_class"][:40],
            f"{name!r}, the class of the request's other segments",
        )  # fmt: skip
        require(
            k == 0 or row["new_prompt_tokens"] in ("0", ""), f"{place}: new_prompt_tokens",
            row["new_prompt_tokens"][:40], "0: only segment 0 has a prompt",
        )  # fmt: skip
        count(path, line, row, "prompt_tokens_as_recorded")
        output += count(path, line, row, "completion_tokens")
        if k + 1 < len(segments):
            calls.append(
                Call(
                    after_tokens=output,
                    duration_s=seconds(path, line, row, "api_time_s"),
                    response_tokens=count(path, line, row, "api_return_tokens", at_least=0),
                )
            )
        else:
            _check_ending(path, line, row)
    number = int(row["request"])
    try:
        request = Request(
            id=request_id(name, number), prompt_tokens=prompt, output_tokens=output,
            calls=tuple(calls),
        )  # fmt: skip
    except InvalidInputError as error:  # the sum of the segments is too long
        raise InvalidInputError(f"{path}: {error.message}", hint=error.hint) from None
    return name, request


def _check_ending(path: Path, line: int, row: Row) -> None:
    """The last segment has no call, or one that nothing follows.

    What such a call returns is never processed; the published table has four of -2.
    """
    returned = row["api_return_tokens"]
    if row["api_time_s"]:
        seconds(path, line, row, "api_time_s")
        expected, ok = "a whole number", bool(_WHOLE.fullmatch(returned))
    else:
        expected, ok = "nothing, as api_time_s is empty", not returned
    require(ok, f"{path}: line {line}: api_return_tokens", returned[:40], expected)
