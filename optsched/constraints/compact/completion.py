"""Rule ``completion``: exactly O tokens are generated, and nothing is done afterwards."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def completion(instance: Instance, v: CompactVariables) -> Block:
    """s' = s + g; finished (done) iff s = I + O, from then on not processed. All are done at the
    last boundary, by their bounds.

        I + O done <= s <= I + O - 1 + done,  d + p + done <= 1
    """
    shape = (len(instance), v.batches)
    prompt, output = instance.prompt_tokens[:, None], instance.output_tokens[:, None]
    final = instance.final_tokens[:, None]
    s, done = v["known"], v["done"]
    boundaries = s.shape
    name = "completion"
    return join(name, [
        rows(name, shape, (s[:, 1:], 1), (s[:, :-1], -1), (v["generates"], -1), lower=0, upper=0),
        rows(name, boundaries, (s, 1), (done, -output), lower=prompt),
        rows(name, boundaries, (s, 1), (done, -1), upper=final),
        rows(name, shape, (v["decodes"], 1), (v["prefills"], 1), (done[:, :-1], 1), upper=1),
    ])  # fmt: skip
