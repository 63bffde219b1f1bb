"""What requests are charged at a price of 1, and how long they stay, by pace; floating point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.paces import UNITS, Paces
from optsched.instance import Instance

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestCharges:
    """Seconds.

    Parameters
    ----------
    fill_s, fill_stay_s : float arrays, shape ``(requests,)``
        Charge of the first fill, and how long it takes at least.
    decodes_s, stay_s : float arrays, shape ``(requests, paces)``
        Charge of all decodes, and how long fill and decodes take.
    """

    fill_s: FloatArray
    fill_stay_s: FloatArray
    decodes_s: FloatArray
    stay_s: FloatArray


def request_charges(instance: Instance, paces: Paces, chosen: list[int]) -> RequestCharges:
    """Charges under the paces ``chosen``, each request's decodes at their mean KV."""
    cost = instance.cost
    prompt = instance.prompt_tokens.astype(np.float64)
    decodes = (instance.output_tokens - 1).astype(np.float64)
    attention = cost.prefill_time(prompt, 0)
    stay = cost.token_time(prompt) + attention
    fill = (float(paces.fill_token) + float(paces.fill_memory)) * prompt
    fill += float(paces.fill_attention) * attention
    size = prompt + (decodes + 1) / 2
    charge, stays = [], []
    for pace in chosen:
        lines = (paces.decode[pace], paces.refill[pace])
        each = np.min([a / UNITS + b / UNITS * size for a, b in lines], axis=0)
        charge.append(decodes * each)
        stays.append(stay + decodes * (paces.from_units[pace] / UNITS))
    return RequestCharges(
        fill_s=np.asarray(fill), fill_stay_s=np.asarray(stay),
        decodes_s=np.stack(charge, axis=1), stay_s=np.stack(stays, axis=1),
    )  # fmt: skip
