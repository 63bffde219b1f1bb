"""What a step is, and what it leaves cached."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def steps(instance: Instance, v: CompactVariables) -> Block:
    """Decode or prefill, generating or not (problem.md, 2 and 3).

    With g, d, p, e = generates, decodes, prefills, evicts and P' = min(C, P):

    - c <= d + P' p;
    - g = 1 only if c = s - m: s - m - c <= (I + O - 1)(1 - g) + done;
    - decode iff c = 1, m = s - 1 and m >= I: d <= g, m >= I d; a prefill step that generates a
      token past the first has c >= 2, as (O - 1)(c - 1) >= s - I if g = p = 1 (O with responses);
    - m' <= m + c, with equality unless the request is evicted or finishes:
      m' >= m + c - (I + O - 2) e - (I + O - 1)(done' - done).
    """
    shape = (len(instance), v.batches)
    prompt, output = instance.prompt_tokens[:, None], instance.output_tokens[:, None]
    final = instance.final_tokens[:, None]
    further = final + 1 - prompt
    chunk = np.minimum(final, instance.limits.fill_tokens)
    s, m, done = v["known"][:, :-1], v["cached"][:, :-1], v["done"][:, :-1]
    m_next, done_next = v["cached"][:, 1:], v["done"][:, 1:]
    c, g, d, p, e = (v[name] for name in ("tokens", "generates", "decodes", "prefills", "evicts"))
    past_first = [
        (np.where(output > 1, column, -1), value)
        for column, value in ((c, further - 1), (s, -1), (g, -further), (p, -further))
    ]
    finishes = (done_next, final), (done, -final)
    name = "steps"
    return join(name, [
        rows(name, shape, (c, 1), (d, -1), (p, -chunk), upper=0),
        rows(name, shape, (s, 1), (m, -1), (c, -1), (g, final), (done, -1), upper=final),
        rows(name, shape, (d, 1), (g, -1), upper=0),
        rows(name, shape, (m, 1), (d, -prompt), lower=0),
        rows(name, shape, *past_first, lower=-final - 2),
        rows(name, shape, (m_next, 1), (m, -1), (c, -1), upper=0),
        rows(name, shape, (m_next, 1), (m, -1), (c, -1), (e, final - 1), *finishes, lower=0),
    ])  # fmt: skip
