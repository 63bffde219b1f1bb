"""Instance: a workload, the limits of the machine it runs on, and its batch-time law.

Units are seconds, tokens and requests. ``docs/problem.md`` defines what each field means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.errors import InfeasibleError, require, require_count, require_nonnegative

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
_MOST_TOKENS = 10**7  # of one request
_AT_ONCE, _EQUAL_WEIGHT = 0.0, 1.0  # defaults of a request


class Limits(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What the machine can hold and process.

    Parameters
    ----------
    kv_tokens : int
        M, the capacity of the KV cache.
    batch_tokens : int
        C, the most tokens that one batch processes.
    prefill_tokens : int or None
        P, the most prefill tokens that one batch processes; C if not given.
    batch_requests : int or None
        The most requests that one batch processes; no limit if not given.
    block_tokens : int
        b, the size of a KV page.
    host_kv_tokens : int
        Host memory for swapped KV; 0 means that swapping is not possible.
    """

    kv_tokens: int
    batch_tokens: int
    prefill_tokens: int | None = None
    batch_requests: int | None = None
    block_tokens: int = 1
    host_kv_tokens: int = 0

    def __post_init__(self) -> None:
        require_count("limits.kv_tokens", self.kv_tokens, 1)
        require_count("limits.batch_tokens", self.batch_tokens, 1)
        if self.prefill_tokens is not None:
            require_count("limits.prefill_tokens", self.prefill_tokens, 1)
        if self.batch_requests is not None:
            require_count("limits.batch_requests", self.batch_requests, 1)
        require_count("limits.block_tokens", self.block_tokens, 1)
        require_count("limits.host_kv_tokens", self.host_kv_tokens, 0)

    @property
    def fill_tokens(self) -> int:
        """min(C, P): the most prefill tokens that one batch can process."""
        if self.prefill_tokens is None:
            return self.batch_tokens
        return min(self.batch_tokens, self.prefill_tokens)

    def pages(self, tokens: int) -> int:
        """KV tokens taken by ``tokens`` cached tokens: b * ceil(tokens / b)."""
        return self.block_tokens * -(-tokens // self.block_tokens)


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call: made when ``after_tokens`` output tokens exist, returns after ``duration_s``
    and appends ``response_tokens`` to the request's context."""

    after_tokens: int
    duration_s: float
    response_tokens: int

    def __post_init__(self) -> None:
        require_count("call.after_tokens", self.after_tokens, 1)
        require_nonnegative("call.duration_s", self.duration_s)
        require_count("call.response_tokens", self.response_tokens, 0, _MOST_TOKENS)
        msgspec.structs.force_setattr(self, "duration_s", float(self.duration_s))


class Request(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One request: I prompt tokens, O output tokens, when it arrives, the calls it makes, and
    its service-level objectives (seconds; a missing one counts as met)."""

    id: str
    prompt_tokens: int
    output_tokens: int
    arrival_s: float = _AT_ONCE
    calls: tuple[Call, ...] = ()
    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    latency_slo_s: float | None = None
    weight: float = _EQUAL_WEIGHT

    def __post_init__(self) -> None:
        require(bool(self.id), "request.id", self.id, "a non-empty string")
        where = f"request {self.id!r}"
        require_count(f"{where}: prompt_tokens", self.prompt_tokens, 1, _MOST_TOKENS)
        require_count(f"{where}: output_tokens", self.output_tokens, 1, _MOST_TOKENS)
        require_nonnegative(f"{where}: arrival_s", self.arrival_s)
        require_nonnegative(f"{where}: weight", self.weight)
        for name in ("ttft_slo_s", "tpot_slo_s", "latency_slo_s"):
            if getattr(self, name) is not None:
                require_nonnegative(f"{where}: {name}", getattr(self, name))
        for name in ("arrival_s", "weight", "ttft_slo_s", "tpot_slo_s", "latency_slo_s"):
            value = getattr(self, name)
            if isinstance(value, int):  # equal requests must encode, and so hash, alike
                msgspec.structs.force_setattr(self, name, float(value))
        # Defaults are left out of the encoding, but only if they are the very same object.
        for name, default in (("arrival_s", _AT_ONCE), ("weight", _EQUAL_WEIGHT)):
            if getattr(self, name) == default:
                msgspec.structs.force_setattr(self, name, default)
        msgspec.structs.force_setattr(self, "calls", tuple(self.calls))
        last = 0
        for k, call in enumerate(self.calls):
            require(
                last < call.after_tokens < self.output_tokens,
                f"{where}: calls[{k}].after_tokens", call.after_tokens,
                f"a whole number above {last} and below output_tokens = {self.output_tokens}",
            )  # fmt: skip
            last = call.after_tokens

    @property
    def response_tokens(self) -> int:
        """Tokens that all its calls append."""
        return sum(call.response_tokens for call in self.calls)

    @property
    def final_tokens(self) -> int:
        """I + O - 1 + responses: KV of the request in the batch that finishes it."""
        return self.prompt_tokens + self.output_tokens - 1 + self.response_tokens


class Instance(
    msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=True, forbid_unknown_fields=True
):
    """Requests, limits and cost; the order of ``requests`` is what schedules refer to."""

    name: str
    limits: Limits
    cost: CostModel
    requests: tuple[Request, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "requests", tuple(self.requests))
        require(len(self.requests) >= 1, "requests", [], "at least one request")
        if len({r.id for r in self.requests}) != len(self.requests):
            seen: set[str] = set()
            for request in self.requests:
                require(request.id not in seen, "request.id", request.id, "every id only once")
                seen.add(request.id)

    def __len__(self) -> int:
        return len(self.requests)

    @cached_property
    def prompt_tokens(self) -> IntArray:
        """I, shape ``(requests,)``."""
        return _fixed([r.prompt_tokens for r in self.requests])

    @cached_property
    def output_tokens(self) -> IntArray:
        """O, shape ``(requests,)``."""
        return _fixed([r.output_tokens for r in self.requests])

    @cached_property
    def final_tokens(self) -> IntArray:
        """I + O - 1 + responses, shape ``(requests,)``."""
        return _fixed([r.final_tokens for r in self.requests])

    @cached_property
    def release_s(self) -> FloatArray:
        """Arrival on the schedule's clock, whose 0 is the earliest arrival; ``(requests,)``."""
        arrival = np.array([r.arrival_s for r in self.requests], dtype=np.float64)
        release: FloatArray = arrival - arrival.min()
        release.setflags(write=False)
        return release

    @cached_property
    def weights(self) -> FloatArray:
        """Weight of each request, shape ``(requests,)``."""
        weights: FloatArray = np.array([r.weight for r in self.requests], dtype=np.float64)
        weights.setflags(write=False)
        return weights

    @cached_property
    def total_weight(self) -> float:
        """Weight of all requests: the most that goodput can be."""
        return float(sum(r.weight for r in self.requests))

    @property
    def offline(self) -> bool:
        """Whether all requests arrive at once."""
        return not bool(self.release_s.any())

    @property
    def has_calls(self) -> bool:
        """Whether any request makes a call."""
        return any(r.calls for r in self.requests)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the optimum depends on; names and presets' names do not."""
        limits = (
            self.limits.kv_tokens, self.limits.batch_tokens, self.limits.fill_tokens,
            self.limits.batch_requests, self.limits.block_tokens, self.limits.host_kv_tokens,
        )  # fmt: skip
        cost = msgspec.structs.astuple(self.cost)[:-1]
        # Every field spelt out: what an encoder leaves out as a default must not matter.
        requests = [msgspec.structs.astuple(request) for request in self.requests]
        text = msgspec.json.encode((limits, cost, requests))
        return "sha256:" + hashlib.sha256(text).hexdigest()


def _fixed(values: list[int]) -> IntArray:
    """Array that nobody can write to: checker, simulator and bounds share it."""
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def require_feasible(instance: Instance, policies: Collection[str] = ()) -> None:
    """Raise :class:`InfeasibleError` naming the first request that cannot run even alone.

    A request's largest KV need (I + O - 1 + responses, in whole pages) must fit in M; under
    ``no-chunk`` its prompt and each response (with the token before it) must also fit in one
    batch.
    """
    limits = instance.limits
    for request in instance.requests:
        need = limits.pages(request.final_tokens)
        if need > limits.kv_tokens:
            raise InfeasibleError(
                f"request {request.id!r} needs {need} KV tokens at its end, "
                f"more than kv_tokens = {limits.kv_tokens}",
                hint="raise limits.kv_tokens or leave the request out",
            )
        if "no-chunk" in policies:
            fill = max([request.prompt_tokens, *(1 + c.response_tokens for c in request.calls)])
            if fill > limits.fill_tokens:
                raise InfeasibleError(
                    f"request {request.id!r} has a fill of {fill} tokens, more than one batch "
                    f"processes (min(batch_tokens, prefill_tokens) = {limits.fill_tokens}), "
                    "and policy no-chunk forbids to split it",
                    hint="drop --policy no-chunk or raise limits.batch_tokens",
                )
