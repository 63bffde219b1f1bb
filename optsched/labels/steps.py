"""What each request can do next, by how many tokens it has generated and where its KV is.

Unchunked, so a request that has generated g tokens is in one of few places. Its next step, which
generates token g + 1, processes all its S_g known tokens if nothing of it is cached, and 1 + R_g if
the m_g = S_g - 1 - R_g before the last one are, with R_g the response of the call that token g made
(:mod:`optsched.model.contexts`).
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.handling import handling_of, required_handling
from optsched.instance import Instance
from optsched.model.contexts import contexts

# Places of a request's KV. CALLED and RETURNED are GPU too and tell how a call was handled so far,
# where a policy asks: no batch since the call, or swapped out and in again.
GONE, GPU, HOST, CALLED, RETURNED = range(5)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: tokens, whether it is a decode, its attention (s), and pages held in its batch."""

    tokens: int
    decode: bool
    attention_s: float
    pages: int


@dataclass(frozen=True, kw_only=True)
class Steps:
    """All steps of one request; lists by g = 0 .. O - 1.

    ``fill`` processes everything, ``on`` goes on from the cached tokens (None at g = 0); ``cached``
    are those, ``pages`` the memory that they hold. ``pause_s[g]`` is the duration of the call that
    token g makes and ``handling[g]`` how a policy wants it handled (None: free, or no call).
    """

    output: int
    release_s: float
    fill: tuple[Step, ...]
    on: tuple[Step | None, ...]
    cached: tuple[int, ...]
    pages: tuple[int, ...]
    pause_s: tuple[float, ...]
    handling: tuple[str | None, ...]


def all_steps(instance: Instance, policies: frozenset[str]) -> tuple[Steps, ...]:
    """The steps of every request."""
    cost, block = instance.cost, instance.limits.block_tokens
    sizes = contexts(instance)
    wanted = required_handling(instance, [p for p in policies if handling_of(p) is not None])
    found = []
    for i, request in enumerate(instance.requests):
        durations = {call.after_tokens: call.duration_s for call in request.calls}
        fill, on, cached, pages = [], [], [], []
        for g in range(request.output_tokens):
            known = int(sizes.known[i, g])
            held = -(-known // block) * block
            fill.append(
                Step(
                    tokens=known, decode=False, pages=held,
                    attention_s=float(cost.prefill_time(known, 0)),
                )
            )  # fmt: skip
            resident = int(sizes.resident[i, g]) if g else 0
            cached.append(resident)
            pages.append(-(-resident // block) * block)
            rest = known - resident
            decode = rest == 1
            attention = (
                cost.decode_time(resident) if decode else cost.prefill_time(rest, resident)
            )  # fmt: skip
            on.append(
                Step(tokens=rest, decode=decode, attention_s=float(attention), pages=held)
                if g
                else None
            )
        found.append(
            Steps(
                output=request.output_tokens, release_s=float(instance.release_s[i]),
                fill=tuple(fill), on=tuple(on), cached=tuple(cached), pages=tuple(pages),
                pause_s=tuple(durations.get(g, 0.0) for g in range(request.output_tokens)),
                handling=tuple(
                    wanted[i] if g in durations else None for g in range(request.output_tokens)
                ),
            )
        )  # fmt: skip
    return tuple(found)
