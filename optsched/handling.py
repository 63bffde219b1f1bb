"""What happens to the KV of a request while it waits for a call, and policies that fix it.

A call made in batch j by a request that is processed next in batch r is *handled* by the last
eviction or swap out of that request in batches j+1 .. r-1: ``discard`` or ``swap``; without one
it is ``preserve``. If r = j + 1 there is no batch in between to do anything in: the KV is held
for free, and such a call satisfies every policy.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.instance import Instance

HANDLINGS = ("preserve", "discard", "swap")


class HandledCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a schedule.

    Parameters
    ----------
    request : str
        Id of the request.
    after_tokens : int
        Output tokens generated when it was made.
    batch, resumed : int
        The batch that made it, and the next one that processed the request.
    handling : str
        One of :data:`HANDLINGS`; ``preserve`` if there is no batch in between.
    """

    request: str
    after_tokens: int
    batch: int
    resumed: int
    handling: str


def handling_of(policy: str) -> tuple[str, str | None] | None:
    """The handling that a policy asks for, and of which request; None if it is about other things.

    ``discard`` is about the calls of all requests, ``discard:r7`` about those of request ``r7``.
    """
    name, colon, request = policy.partition(":")
    if name not in HANDLINGS:
        return None
    return name, request if colon else None


def required_handling(instance: Instance, policies: Collection[str]) -> tuple[str | None, ...]:
    """How each request's calls must be handled, None where that is free; ``(requests,)``.

    Raises
    ------
    UnknownNameError
        A policy names a request that does not exist.
    InvalidInputError
        Two policies fix the calls of the same request differently.
    """
    fixed: dict[str | None, str] = {}
    for policy in sorted(policies):
        found = handling_of(policy)
        if found is None:
            continue
        name, request = found
        if fixed.setdefault(request, name) != name:
            whose = "all requests" if request is None else f"request {request!r}"
            raise InvalidInputError(
                f"the calls of {whose} cannot be handled by both {fixed[request]} and {name}",
                hint=f"give one; {name}:ID is for the calls of one request",
            )
    ids = [request.id for request in instance.requests]
    for request in fixed.keys() - {None}:
        if request not in ids:
            raise UnknownNameError("request", str(request), ids)
    return tuple(fixed.get(each, fixed.get(None)) for each in ids)
