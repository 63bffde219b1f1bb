"""One request after another, each alone: the schedule that obeys every policy."""

from __future__ import annotations

from optsched.instance import Instance, Request
from optsched.schedule import Kind, Schedule, from_steps


def serial(instance: Instance) -> Schedule:
    """Requests by arrival, each to its end; fills in chunks of min(C, P) tokens, then decodes.

    It never evicts, holds or mixes phases, chunks only fills that exceed a batch, and waits for
    every call with the KV in place, so it exists whenever any schedule does.
    """
    steps, batch = [], 0
    process, most = int(Kind.PROCESS), instance.limits.fill_tokens
    for i in instance.release_s.argsort(kind="stable").tolist():
        tokens = own_steps(instance.requests[i], most)
        steps += [(i, process, batch + k, c) for k, c in enumerate(tokens, start=1)]
        batch += len(tokens)
    return from_steps(steps)


def own_steps(request: Request, most: int) -> list[int]:
    """Tokens of the steps of a request that is alone, with at most ``most`` of a fill in a batch.

    After a call the token that made it and the response are filled together.
    """
    tokens, made, fill = [], 0, request.prompt_tokens
    for call in request.calls:
        tokens += [*_chunks(fill, most), *([1] * (call.after_tokens - made - 1))]
        made, fill = call.after_tokens, 1 + call.response_tokens
    return [*tokens, *_chunks(fill, most), *([1] * (request.output_tokens - made - 1))]


def _chunks(tokens: int, most: int) -> list[int]:
    rest = tokens % most
    return [most] * (tokens // most) + ([rest] if rest else [])
