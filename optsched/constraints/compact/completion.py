"""Rule ``completion``: exactly O tokens are generated, and nothing is done afterwards."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def completion(instance: Instance, v: CompactVariables) -> Block:
    """s' = s + g, and the responses of calls that are made; finished (done) iff s = I + O +
    responses, from then on not processed. All are done at the last boundary, by their bounds.

        I + (O + responses) done <= s <= I + O + responses - 1 + done,  d + p + done <= 1
    """
    shape = (len(instance), v.batches)
    prompt, final = instance.prompt_tokens[:, None], instance.final_tokens[:, None]
    s, done = v["known"], v["done"]
    boundaries = s.shape
    name = "completion"
    appended = _appended(v)
    return join(name, [
        rows(name, shape, (s[:, 1:], 1), (s[:, :-1], -1), (v["generates"], -1), *appended,
             lower=0, upper=0),
        rows(name, boundaries, (s, 1), (done, prompt - final - 1), lower=prompt),
        rows(name, boundaries, (s, 1), (done, -1), upper=final),
        rows(name, shape, (v["decodes"], 1), (v["prefills"], 1), (done[:, :-1], 1), upper=1),
    ])  # fmt: skip


def _appended(v: CompactVariables) -> list[Term]:
    """The responses of each request's calls that a batch makes, ``(requests, batches)`` and an
    axis to sum over, subtracted."""
    if not len(v.calls):
        return []
    requests, calls = len(v.instance), v.calls
    at = np.full((requests, len(calls), v.batches + 1), -1, dtype=np.int64)
    at[calls.request, np.arange(len(calls))] = v["made"]
    at = np.moveaxis(at, 1, 2)
    response = calls.known_after - calls.known_before - 1
    return [(at[:, 1:], -response), (at[:, :-1], response)]
