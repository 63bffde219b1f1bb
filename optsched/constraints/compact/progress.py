"""Rule ``progress``: what a step processes, what it is, and that every used batch has one."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def progress(instance: Instance, v: CompactVariables) -> Block:
    """1 <= c <= s - m for whoever is processed, which generates iff c = s - m.

    With g, d, p = generates, decodes, prefills, P' = min(C, P), S = I + O - 1 (problem.md, 2-3):

    - d + p <= c <= d + P' p, and g <= d + p;
    - s - m - c >= 1 - g (all but the last token are cached at most), and = 0 if g;
    - decode iff c = 1, m = s - 1 and m >= I: d <= g, m >= I d; a prefill step that generates a
      token past the first has c >= 2, as (O - 1)(c - 1) >= s - I if g = p = 1;
    - m' = m + c without eviction and finish;
    - batches 1 .. N are used: y' <= y, d + p <= y, sum (d + p) >= y.
    """
    n, J = len(instance), v.batches
    shape = (n, J)
    prompt, output = instance.prompt_tokens[:, None], instance.output_tokens[:, None]
    final = instance.final_tokens[:, None]
    chunk = np.minimum(final, instance.limits.fill_tokens)
    s, m, done = v["known"][:, :-1], v["cached"][:, :-1], v["done"][:, :-1]
    m_next, done_next = v["cached"][:, 1:], v["done"][:, 1:]
    c, g, d, p, e = (v[name] for name in ("tokens", "generates", "decodes", "prefills", "evicts"))
    y = v["used"]
    everyone = np.broadcast_to(y, shape)
    past_first = [
        (np.where(output > 1, column, -1), value)
        for column, value in ((c, output - 1), (s, -1), (g, -output), (p, -output))
    ]
    name = "progress"
    return join(name, [
        rows(name, shape, (c, 1), (d, -1), (p, -1), lower=0),
        rows(name, shape, (c, 1), (d, -1), (p, -chunk), upper=0),
        rows(name, shape, (g, 1), (d, -1), (p, -1), upper=0),
        rows(name, shape, (s, 1), (m, -1), (c, -1), (g, 1), lower=1),
        rows(name, shape, (s, 1), (m, -1), (c, -1), (g, final), (done, -1), upper=final),
        rows(name, shape, (d, 1), (g, -1), upper=0),
        rows(name, shape, (m, 1), (d, -prompt), lower=0),
        rows(name, shape, *past_first, lower=-prompt - output - 1),
        rows(
            name, shape, (m_next, 1), (m, -1), (c, -1), (e, final - 1),
            (done_next, final), (done, -final), lower=0,
        ),
        rows(name, shape, (m_next, 1), (m, -1), (c, -1), upper=0),
        rows(name, (J - 1,), (y[:-1], 1), (y[1:], -1), lower=0),
        rows(name, shape, (d, 1), (p, 1), (everyone, -1), upper=0),
        rows(name, (J,), (over_requests(d), 1), (over_requests(p), 1), (y, -1), lower=0),
    ])  # fmt: skip
