"""Settings of the look-ahead with calls, and the order of requests that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from optsched.cost import CostModel
from optsched.instance import Instance
from optsched.warmstart.calls_shape import FloatArray, IntArray, Shape, contexts, fills
from optsched.warmstart.calls_state import Rule

_FIRST = 1e6  # before everything else, seconds of work


class Order(StrEnum):
    """Whom to serve first."""

    WORK = "work"  # least work left
    ARRIVAL = "arrival"
    PATH = "path"  # longest way to its end, pauses included
    LATE = "late"  # the same, counted from its arrival
    FIRST = "first"  # no first token yet, shortest fill first; then least work left
    SLACK = "slack"  # least time until it cannot meet its objectives any more
    PRICE = "price"  # least work per weight, of those that can meet their objectives


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """How to serve requests.

    Parameters
    ----------
    order : Order
    fade_s : float
        Work behind a pause of D counts exp(-D / fade_s) times; 0 for none of it: a long pause
        ends the competition for the machine, a short one does not.
    memory : float
        Seconds of work that a token generated under a full memory is worth, by its share of M.
    fill_weight : float
        Work of a token of a fill, relative to the law.
    chunk : float
        Factor on the active requests in the price of a batch.
    keep_s : float
        Pauses up to which KV is kept in any case.
    wait : float
        Factor on the price of waiting for an imminent arrival or return.
    share : float
        Of M that the profile may take.
    swap_bias : float
        Factor on the price of swapping.
    most, most_share : int, float
        Requests in a batch: a number, or a share of the active ones if that is more.
    most_attention_s : float
        Attention of decodes in a batch from which on no more are taken.
    fills_alone : bool
        Whether decodes behind fills in the order stay out of their batch.
    margin_s : float
        A request takes the memory of those that are so much behind it in the order; infinity for
        nobody's, as in the orders by path in any case.
    offset : float array, shape ``(segments,)``, or None
        Seconds of work added to the order.
    """

    order: Order = Order.WORK
    fade_s: float = 30.0
    memory: float = 0.0
    fill_weight: float = 1.0
    chunk: float = 1.0
    keep_s: float = 2.0
    wait: float = 1.0
    share: float = 0.95
    swap_bias: float = 1.0
    most: int = 10**9
    most_share: float = 0.0
    most_attention_s: float = 1e9
    fills_alone: bool = False
    margin_s: float = 1.0
    offset: FloatArray | None = None


def rule_of(instance: Instance, shape: Shape, settings: Settings) -> Rule:
    """The order of ``settings`` for the segments of ``instance``, ready for the loop."""
    segments, n = shape.made.size, shape.prompt.size
    step, token = _step_s(instance.cost), _token_s(instance.cost) * settings.fill_weight
    context = contexts(shape) + 0.5 * shape.made
    per_token = step + settings.memory * context / instance.limits.kv_tokens
    work = per_token * shape.made + token * fills(shape)
    base = _behind(shape, work, settings.fade_s)
    per_fill = np.full(segments, token)
    first = np.zeros(n)
    latest, first_latest = np.full(segments, np.inf), np.full(n, np.inf)
    owner = np.repeat(np.arange(n), np.diff(shape.begin))
    order = settings.order
    if order is Order.ARRIVAL:
        base, per_token, per_fill = shape.arrive_s[owner], np.zeros(segments), np.zeros(segments)
    elif order in (Order.PATH, Order.LATE):
        way = _behind(shape, work + np.maximum(shape.pause_s, 0.0), np.inf)
        base = -way - np.maximum(shape.pause_s, 0.0)
        base += shape.arrive_s[owner] if order is Order.LATE else 0.0
        per_token, per_fill = -per_token, -per_fill
    elif order is Order.FIRST:
        head = shape.begin[:-1]
        first = -_FIRST - base[head] - per_token[head] * shape.made[head]
    elif order in (Order.SLACK, Order.PRICE):
        latest, first_latest = _latest(instance, shape, owner)
        if order is Order.SLACK:
            finite = np.where(np.isfinite(latest), latest, _FIRST)
            start = np.minimum(first_latest, finite[shape.begin[:-1]])
            start = np.where(np.isfinite(start), start, _FIRST)
            head = shape.begin[:-1]
            base, per_fill = finite, np.zeros(segments)
            per_token = np.zeros(segments)
            first = start - base[head]
        else:
            weight = np.maximum(instance.weights, 1e-9)[owner]
            base, per_token, per_fill = base / weight, per_token / weight, per_fill / weight
    if settings.offset is not None:
        base = base + settings.offset
    # Who falls back in the order as it is served would lose its memory again, and take it back.
    margin_s = np.inf if order in (Order.PATH, Order.LATE) else settings.margin_s
    run_steps, run_tokens = _runs(shape, settings.keep_s)
    return Rule(
        base, per_token, per_fill, latest, first, first_latest, run_steps, run_tokens,
        float(settings.chunk), float(settings.keep_s), float(settings.wait),
        float(settings.share), float(settings.swap_bias), int(settings.most),
        float(settings.most_share), float(settings.most_attention_s),
        bool(settings.fills_alone), float(margin_s),
    )  # fmt: skip


def pause_worth_keeping_s(instance: Instance, kappa: float) -> float:
    """Longest pause for which keeping KV costs less than losing it, whatever its size.

    With KV at kappa / M machine-seconds per token-second, m tokens cost kappa m D / M to keep,
    2 swap_tok m to copy out and in, and about beta m to fill again.
    """
    lost = _token_s(instance.cost)
    if instance.limits.host_kv_tokens:
        lost = min(lost, 2 * instance.cost.swap_tok)
    return lost * instance.limits.kv_tokens / kappa


def has_deadlines(rule: Rule) -> bool:
    """Whether any request can become overdue."""
    return bool(np.isfinite(rule.latest_s).any() or np.isfinite(rule.first_latest_s).any())


def _step_s(cost: CostModel) -> float:
    """A batch of one token."""
    return float(cost.token_time(1))


def _token_s(cost: CostModel) -> float:
    """A prompt token more in a large batch."""
    return max(max(beta for _, beta in cost.pieces), 1e-9)


def _behind(shape: Shape, work: FloatArray, fade_s: float) -> FloatArray:
    """Work of the later segments of the same request, faded by the pauses before it."""
    behind = np.zeros(work.size)
    for s in _backward(shape):
        fade = np.exp(-shape.pause_s[s] / fade_s) if fade_s > 0 else 0.0
        behind[s] = fade * (work[s + 1] + behind[s + 1])
    return behind


def _runs(shape: Shape, keep_s: float) -> tuple[IntArray, IntArray]:
    """Steps and KV tokens that follow every segment without a pause longer than ``keep_s``."""
    steps, tokens = np.zeros_like(shape.made), np.zeros_like(shape.made)
    for s in _backward(shape):
        joined = s[shape.pause_s[s] <= keep_s]
        steps[joined] = steps[joined + 1] + shape.made[joined + 1]
        tokens[joined] = tokens[joined + 1] + shape.made[joined + 1] + shape.response[joined]
    return steps, tokens


def _backward(shape: Shape) -> Iterator[IntArray]:
    """Segments that end in a call, the last ones of all requests first."""
    end = np.repeat(shape.begin[1:], np.diff(shape.begin))
    behind = end - 1 - np.arange(end.size)
    for k in range(1, int(behind.max()) + 1):
        yield np.flatnonzero(behind == k)


def _latest(
    instance: Instance, shape: Shape, owner: IntArray
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """When each segment, and each first fill, must begin at the latest; infinity if ever."""
    cost = instance.cost
    context, tokens = contexts(shape), fills(shape)
    fill_s = cost.token_time(tokens) + cost.p0 + cost.prefill_time(tokens, context - tokens)
    decode_s = _step_s(cost) + cost.d0 + cost.decode_time(context + 0.5 * shape.made)
    own_s = fill_s + (shape.made - 1) * decode_s
    left_s = own_s + _behind(shape, own_s + 0.0, np.inf)
    pauses = np.maximum(shape.pause_s, 0.0)
    left_s += pauses + _behind(shape, pauses, np.inf)

    def given(name: str) -> FloatArray:
        values = (getattr(request, name) for request in instance.requests)
        return np.array([np.inf if value is None else value for value in values])

    ttft, end = given("ttft_slo_s"), given("latency_slo_s")
    steps = np.array([request.output_tokens - 1 for request in instance.requests])
    tpot = np.where(steps > 0, given("tpot_slo_s") * np.maximum(steps, 1), np.inf)
    end = np.minimum(end, ttft + tpot)  # a first token in time can wait that long for the last
    head = shape.begin[:-1]
    return shape.arrive_s[owner] + end[owner] - left_s, shape.arrive_s + ttft - fill_s[head]
