"""Which requests have their first token."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "first_tokens"


def first_tokens(instance: Instance, v: CompactVariables) -> Block:
    """begun = 1 iff s > I:   I + begun <= s <= I + (O + responses) begun."""
    if "begun" not in v:
        return join(NAME, [])
    s, begun = v["known"], v["begun"]
    prompt = instance.prompt_tokens[:, None]
    further = instance.final_tokens[:, None] + 1 - prompt
    return join(NAME, [
        rows(NAME, s.shape, (s, 1), (begun, -1), lower=prompt),
        rows(NAME, s.shape, (s, 1), (begun, -further), upper=prompt),
    ])  # fmt: skip
