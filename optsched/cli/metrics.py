"""Metrics as rows of a table."""

from __future__ import annotations

from optsched.cli.output import percent, seconds
from optsched.simulate import Distribution, Metrics


def metrics_rows(metrics: Metrics) -> list[tuple[str, str]]:
    """Name and value of every metric, with units."""
    rows = [
        ("makespan, s", seconds(metrics.makespan_s)),
        ("output tokens per second", _number(metrics.tokens_per_second)),
        ("TTFT mean / p50 / p90 / p99 / max, s", _spread(metrics.ttft_s)),
        ("latency mean / p50 / p90 / p99 / max, s", _spread(metrics.latency_s)),
        ("TPOT mean / p50 / p90 / p99 / max, s", _spread(metrics.tpot_s)),
    ]
    if metrics.pause_s:
        rows.append(("TPOT without pauses, s", _spread(metrics.tpot_without_pauses_s)))
    return [
        *rows,
        ("requests that meet their SLOs", str(metrics.goodput_requests)),
        ("goodput, weight per second", _number(metrics.goodput_weight_per_second)),
        ("batches", str(metrics.batches)),
        ("evictions", str(metrics.evictions)),
        ("recompute tax", percent(metrics.recompute_tax)),
        ("swapped tokens", str(metrics.swapped_tokens)),
        ("KV in use mean / peak, tokens",
         f"{_number(metrics.mean_kv_tokens)} / {metrics.peak_kv_tokens}"),
    ]  # fmt: skip


def _spread(times: Distribution) -> str:
    return " / ".join(seconds(t) for t in (times.mean, times.p50, times.p90, times.p99, times.max))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
