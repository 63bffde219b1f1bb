"""What the built-in schedulers refuse."""

from __future__ import annotations

from optsched.errors import UnsupportedError
from optsched.instance import Instance


def require_no_calls(instance: Instance, name: str) -> None:
    """Raise :class:`UnsupportedError` naming the first request that makes calls."""
    for request in instance.requests:
        if request.calls:
            raise UnsupportedError(
                f"scheduler {name!r} knows no calls, but request {request.id!r} "
                f"makes {len(request.calls)}",
                hint="infercept, mars, vllm-discard and calls-shortest-work know them",
            )
