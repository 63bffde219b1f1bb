"""How many batches every schedule has, as far as the compact formulation needs it.
(:mod:`optsched.bounds.batch_count` is sharper, and above this layer.)
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance
from optsched.model.compact_packing import packings
from optsched.model.contexts import contexts
from optsched.model.milp import IntArray


def stage_tokens(instance: Instance) -> IntArray:
    """S_ik, the KV tokens of a request in the batch that generates its token k + 1; all requests
    one after another, shape ``(sum of O,)``. (Without calls it is I_i + k.)"""
    pairs = zip(contexts(instance).known, instance.output_tokens.tolist(), strict=True)
    return np.concatenate([known[:output] for known, output in pairs])


def least_batches(instance: Instance) -> int:
    """A number of batches that every schedule has.

    Notes
    -----
    Let C, P and K be the limits on tokens, prefill tokens and requests, P' = min(C, P).
    - Tokens, each processed at least once: first fills are prefill, ceil(sum I / P');
      ceil(sum (I + O - 1 + responses) / C);
      ceil(sum O / K).
    - Chain: a request's first fill takes ceil(I / P') batches, every further token one more.
    - Memory: the batch that generates token k + 1 holds S_ik. Packing these into N batches of M
      needs sum S <= M N, and sum f(S) <= f(M) N for dual feasible functions f; in whole pages.
    """
    limits = instance.limits
    prompt, output = instance.prompt_tokens, instance.output_tokens
    fill = -(-prompt // limits.fill_tokens)
    counts = [
        int((fill + output).max()) - 1,
        -(-int(prompt.sum()) // limits.fill_tokens),
        -(-int(instance.final_tokens.sum()) // limits.batch_tokens),
    ]
    if limits.batch_requests is not None:
        counts.append(-(-int(output.sum()) // limits.batch_requests))
    pages = -(-stage_tokens(instance) // limits.block_tokens)
    capacity = limits.kv_tokens // limits.block_tokens
    counts.append(-(-int(pages.sum()) // capacity))
    counts += [function.batches(pages) for function in packings(pages, capacity)]
    return max(counts)
