"""How many batches every schedule has, as far as the compact formulation needs it: offline,
without calls and swapping. (:mod:`optsched.bounds.batch_count` is sharper, and above this layer.)
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance
from optsched.model.compact_packing import packings
from optsched.model.milp import IntArray


def stage_tokens(instance: Instance) -> IntArray:
    """S_ik = I_i + k, the KV tokens of a request in the batch that generates its token k + 1;
    all requests one after another, shape ``(sum of O,)``."""
    pairs = zip(instance.prompt_tokens, instance.output_tokens, strict=True)
    return np.concatenate([np.arange(prompt, prompt + output) for prompt, output in pairs])


def least_batches(instance: Instance) -> int:
    """A number of batches that every schedule has.

    Notes
    -----
    Let C, P and K be the limits on tokens, prefill tokens and requests, P' = min(C, P).
    - Tokens: first fills are prefill, ceil(sum I / P'); ceil(sum (I + O - 1) / C);
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
