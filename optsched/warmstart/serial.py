"""One request after another, each alone: the schedule that obeys every policy."""

from __future__ import annotations

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule, from_steps


def serial(instance: Instance) -> Schedule:
    """Requests by arrival; each fills its prompt in chunks of min(C, P) tokens and then decodes.

    It never evicts, holds or mixes phases, and chunks only prompts that exceed a batch, so it
    exists whenever any schedule does (calls excepted).
    """
    steps, batch = [], 0
    process, most = int(Kind.PROCESS), instance.limits.fill_tokens
    for i in instance.release_s.argsort(kind="stable").tolist():
        request = instance.requests[i]
        chunks = [most] * (request.prompt_tokens // most)
        rest = request.prompt_tokens % most
        tokens = [*chunks, *([rest] if rest else []), *([1] * (request.output_tokens - 1))]
        steps += [(i, process, batch + k, c) for k, c in enumerate(tokens, start=1)]
        batch += len(tokens)
    return from_steps(steps)
