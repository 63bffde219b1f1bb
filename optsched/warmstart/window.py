"""The requests that a look-ahead scheduler chooses from: the most preferred groups that wait."""

from __future__ import annotations

import numpy as np

from optsched.instance import IntArray
from optsched.warmstart.groups import Groups


class Window:
    """The first ``width`` groups that still have members, in order of preference.

    Parameters
    ----------
    groups : Groups
    width : int
        How many groups a scheduler looks at.
    latest_first : bool
        Take the members of a group from the latest arrival on.

    Attributes
    ----------
    group, prompt, output, final : int arrays, shape ``(groups in the window,)``
        Index into ``groups``, I, O and I + O - 1 of the groups.
    left : int
        Requests that wait, in the window or behind it.
    smallest_prompt, smallest_final : int
        Least I and I + O - 1 in the window; below every one of them.
    """

    def __init__(self, groups: Groups, width: int, *, latest_first: bool = False) -> None:
        self.groups = groups
        self.left = int(groups.size.sum())
        self._members = [list(m) if latest_first else list(m[::-1]) for m in groups.members]
        self._next = min(width, len(groups))
        self._set(np.arange(self._next, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.group.size)

    def take(self, place: int) -> int:
        """Take one request of the group at ``place`` out; its position in the instance."""
        group = int(self.group[place])
        request = self._members[group].pop()
        self.left -= 1
        if not self._members[group]:
            kept = np.delete(self.group, place)
            if self._next < len(self.groups):
                kept = np.append(kept, self._next)
                self._next += 1
            self._set(kept)
        return request

    def _set(self, group: IntArray) -> None:
        groups = self.groups
        self.group = group
        self.prompt = groups.prompt[group]
        self.output = groups.output[group]
        self.final = self.prompt + self.output - 1
        self.smallest_prompt = int(self.prompt.min()) if group.size else 0
        self.smallest_final = int(self.final.min()) if group.size else 0
