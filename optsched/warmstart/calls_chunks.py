"""How many prompt tokens a batch takes, by the price of time (compiled where that pays).

Everybody who is active waits for a batch to end. Cut into k batches of x = F / k tokens, a fill of
F tokens costs A active requests k A t(x) request-seconds, but of those the D that decode meanwhile
would have spent k D t(0) anyway. So the tokens of a batch are those that minimise

    k (A t(x) - D t(0)),     k = ceil(F / x)

and the least is at a knot of the batch-time law or at all tokens at once, since t is convex and
piecewise linear but for the attention. With few decodes the large batch wins, with many the one at
the first knot.
"""

from __future__ import annotations

import numpy as np

from optsched.warmstart.calls_shape import Law


def weights_time(law: Law, tokens: int) -> float:
    """max_k (alpha_k + beta_k n)."""
    longest = -np.inf
    for k in range(law.alpha.size):
        longest = max(longest, law.alpha[k] + law.beta[k] * tokens)
    return float(longest)


def fill_tokens(
    law: Law, decodes: int, attention_s: float, active: float, filling: float, total: int,
    cached: int,
) -> tuple[int, float]:  # fmt: skip
    """Tokens of a batch for ``total`` tokens of fills, and the price in request-seconds.

    Parameters
    ----------
    decodes, attention_s
        Decodes of the batch and the time of their attention.
    active, filling
        A, and those of them that do not decode meanwhile, A - D.
    cached
        Tokens of the fill that are cached already.
    """
    at_rest = 0.0
    if decodes > 0:
        at_rest = (active - filling) * (weights_time(law, decodes) + attention_s)
    chosen, least = total, np.inf
    for k in range(law.knots.size + 1):
        tokens = total if k == law.knots.size else law.knots[k] - decodes
        if tokens < 1 or tokens > total:
            continue
        batches = -(-total // tokens)
        tokens = -(-total // batches)
        mean = cached + (0.5 * (total - tokens) if batches > 1 else 0.0)
        taken = weights_time(law, decodes + tokens) + attention_s + law.p0 + law.p_req
        taken += (law.p_sq * tokens + law.p_mc * mean) * tokens + law.p_kv * mean
        price = batches * (active * taken - at_rest)
        if price < least:
            chosen, least = tokens, price
    return chosen, float(least)
