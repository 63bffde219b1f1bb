"""What each request can do next, by how many tokens it has generated and where its KV is.

Unchunked, so a request that has generated g tokens is in one of few places. Its next step, which
generates token g + 1, processes all its S_g known tokens if nothing of it is cached, and 1 + R_g if
the m_g = S_g - 1 - R_g before the last one are, with R_g the response of the call that token g made
(:mod:`optsched.model.calls_network_stages`).
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.handling import required_handling
from optsched.instance import Instance
from optsched.model.calls_network_stages import all_stages

# Places of a request's KV. CALLED and RETURNED are GPU too and tell how a call was handled so far,
# where a policy asks: no batch since the call, or swapped out and in again.
GONE, GPU, HOST, CALLED, RETURNED = range(5)


@dataclass(frozen=True)
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
    cost, pages_of = instance.cost, instance.limits.pages
    wanted = required_handling(instance, policies)
    found = []
    for i, stages in enumerate(all_stages(instance)):
        stage = range(len(stages))
        known, cached = stages.known.tolist(), stages.cached.tolist()
        rest = stages.appended.tolist()
        fill_s, on_s = stages.fill_s(cost).tolist(), stages.append_s(cost).tolist()
        held = [pages_of(tokens) for tokens in known]
        found.append(
            Steps(
                output=len(stages), release_s=float(instance.release_s[i]),
                fill=tuple(Step(known[g], False, fill_s[g], held[g]) for g in stage),
                on=(None, *(Step(rest[g], rest[g] == 1, on_s[g], held[g]) for g in stage[1:])),
                cached=tuple(cached), pages=tuple(pages_of(tokens) for tokens in cached),
                pause_s=tuple(stages.pause_s.tolist()),
                handling=tuple(wanted[i] if g in stages.calls else None for g in stage),
            )
        )  # fmt: skip
    return tuple(found)
