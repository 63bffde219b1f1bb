"""The batch-time law: how long a batch takes, given what it processes.

    t = max_k (alpha_k + beta_k * n)
      + [any decode]  * d0 + sum over decode steps  (d_kv * m + d_req)
      + [any prefill] * p0 + sum over prefill steps (p_sq * c^2 + p_mc * m * c + p_kv * m + p_req)
      + swap_tok * (tokens swapped out or in)

with n the tokens processed in the batch, c those of one step and m the tokens that the step's
request had cached before the batch. Times are seconds. The linear law (one piece) is InferMax's;
several pieces follow GPUs, which are flat while weights are loaded and then rise.
"""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.errors import require, require_nonnegative

FloatArray = NDArray[np.float64]
_MOST_S = 1e9  # 30 years; larger coefficients only make sums overflow
_COEFFICIENTS = ("d0", "d_kv", "d_req", "p0", "p_sq", "p_kv", "p_req", "swap_tok")


class CostModel(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """Coefficients of the batch-time law.

    Parameters
    ----------
    pieces : tuple of (alpha, beta)
        Affine pieces of the time of the non-attention part: seconds, seconds per token.
    d0, d_kv, d_req : float
        Decode: seconds per batch that has any, per cached token, per request.
    p0, p_sq, p_mc, p_kv, p_req : float
        Prefill: seconds per batch that has any, per squared token of the step, per
        (cached token x token), per cached token, per request. ``p_mc`` defaults to
        ``2 * p_sq``, for which the attention of one uninterrupted fill telescopes:
        (m + c)^2 - m^2 = c^2 + 2 m c.
    swap_tok : float
        Seconds per token copied between GPU and host memory.
    preset : str or None
        Name of the preset that these coefficients came from; provenance only.

    Raises
    ------
    InvalidInputError
        A coefficient is negative, not finite or above 1e9 s, or a batch of one token takes no time.
    """

    pieces: tuple[tuple[float, float], ...]
    d0: float = 0.0
    d_kv: float = 0.0
    d_req: float = 0.0
    p0: float = 0.0
    p_sq: float = 0.0
    p_mc: float | None = None
    p_kv: float = 0.0
    p_req: float = 0.0
    swap_tok: float = 0.0
    preset: str | None = None

    def __post_init__(self) -> None:
        require(len(self.pieces) >= 1, "cost.pieces", self.pieces, "at least one [alpha, beta]")
        for k, piece in enumerate(self.pieces):
            require(len(piece) == 2, f"cost.pieces[{k}]", piece, "a pair [alpha, beta]")
            alpha, beta = piece
            require(math.isfinite(alpha), f"cost.pieces[{k}][0]", alpha, "a finite number")
            require(
                abs(alpha) <= _MOST_S, f"cost.pieces[{k}][0]", alpha,
                f"a number of seconds within {_MOST_S:g}",
            )  # fmt: skip
            _require_coefficient(f"cost.pieces[{k}][1]", beta)
        for name in _COEFFICIENTS:
            _require_coefficient(f"cost.{name}", getattr(self, name))
        if self.p_mc is None:
            msgspec.structs.force_setattr(self, "p_mc", 2 * self.p_sq)
        _require_coefficient("cost.p_mc", self.p_mc)
        # Whole numbers given for seconds become floats, so that equal models compare, encode and
        # hash alike.
        pieces = tuple((float(alpha), float(beta)) for alpha, beta in self.pieces)
        msgspec.structs.force_setattr(self, "pieces", pieces)
        for name in (*_COEFFICIENTS, "p_mc"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        first = max(alpha + beta for alpha, beta in self.pieces)
        require(
            first > 0, "cost.pieces", self.pieces, "a positive time for a batch of one token",
            hint="the largest alpha_k + beta_k must exceed 0",
        )  # fmt: skip

    @cached_property
    def mixed(self) -> float:
        """``p_mc`` with its default filled in."""
        assert self.p_mc is not None
        return self.p_mc

    @property
    def telescopes(self) -> bool:
        """Whether the attention of an uninterrupted fill is p_sq * size^2 however it is chunked."""
        return self.mixed == 2 * self.p_sq

    def token_time(self, tokens: ArrayLike) -> FloatArray:
        """max_k (alpha_k + beta_k n) for every entry of ``tokens``; the time of the weights."""
        n = np.asarray(tokens, dtype=np.float64)
        alpha, beta = np.array(self.pieces).T[:, :, None]
        times: FloatArray = (alpha + beta * n.ravel()).max(axis=0).reshape(n.shape)
        return times

    def decode_time(self, cached: ArrayLike) -> FloatArray:
        """d_kv * m + d_req: the attention of one decode step with m cached tokens."""
        return self.d_kv * np.asarray(cached, dtype=np.float64) + self.d_req

    def prefill_time(self, tokens: ArrayLike, cached: ArrayLike) -> FloatArray:
        """p_sq c^2 + p_mc m c + p_kv m + p_req: the attention of one prefill step."""
        c = np.asarray(tokens, dtype=np.float64)
        m = np.asarray(cached, dtype=np.float64)
        return self.p_sq * c * c + self.mixed * m * c + self.p_kv * m + self.p_req


def _require_coefficient(what: str, value: float | None) -> None:
    require_nonnegative(what, value)
    require(value is not None and value <= _MOST_S, what, value, f"at most {_MOST_S:g} s")
