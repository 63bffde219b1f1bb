"""Request types: groups of identical requests, which a flow may leave unnamed."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.instance import Instance


@dataclass(frozen=True, kw_only=True)
class RequestType:
    """Requests of equal prompt and output; ``members`` are their positions in the instance."""

    prompt_tokens: int
    output_tokens: int
    members: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many requests are of this type."""
        return len(self.members)


def request_types(instance: Instance) -> tuple[RequestType, ...]:
    """The types of ``instance``, by (prompt, output); members in the order of the instance."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, request in enumerate(instance.requests):
        groups.setdefault((request.prompt_tokens, request.output_tokens), []).append(i)
    return tuple(
        RequestType(prompt_tokens=prompt, output_tokens=output, members=tuple(members))
        for (prompt, output), members in sorted(groups.items())
    )
