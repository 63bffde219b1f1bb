"""Random arguments of certificates, sensible or not."""

from __future__ import annotations

import random

from optsched.bounds.time_arguments import exact_lines
from optsched.certificate import (
    Argument,
    ArrivalTime,
    BalancedTime,
    ChainCount,
    Count,
    Line,
    LineTime,
    MemoryCount,
    OfflineTime,
    PathTime,
    PhasesTime,
    PricedTime,
    PromptCount,
    StepCount,
    TokenCount,
    WeightCount,
)
from optsched.instance import Instance
from optsched.pricing import BatchPricing, PricedBatches


def random_count(rng: random.Random, instance: Instance) -> Count:
    """A counting argument, ends and thresholds often too large to hold."""
    largest = int(instance.final_tokens.max())
    few = [0, 0, 0, 1, 2, 3]
    sizes = rng.sample(range(1, largest + 1), rng.randint(1, largest))
    return rng.choice(
        [
            MemoryCount(
                head=rng.choice(few), tail=rng.choice(few), threshold_pages=rng.choice(few),
                rounding=rng.choice([0, 0, 1, 2, 3, 5]),
            ),
            MemoryCount(threshold_pages=rng.randint(0, largest), rounding=rng.randint(0, 6)),
            WeightCount(pages=tuple(sizes), weights=tuple(rng.randint(0, 9) for _ in sizes)),
            TokenCount(tail=rng.choice(few)), PromptCount(tail=rng.choice(few)),
            StepCount(tail=rng.choice(few)), ChainCount(),
        ]
    )  # fmt: skip


def random_line(rng: random.Random, instance: Instance) -> Line:
    """One of the bounds' own lines, a mean of two, or one that may lie above the law."""
    known = exact_lines(instance.cost, instance.limits.batch_tokens)
    one, two = rng.choice(known), rng.choice(known)
    share = rng.choice([0.0, 0.5, rng.random()])
    # The mean of two lines below the law, lowered a little for the rounding of the mean itself.
    mean = Line(
        intercept_s=(one.intercept_s * share + two.intercept_s * (1 - share)) * (1 - 1e-9),
        slope_s=(one.slope_s * share + two.slope_s * (1 - share)) * (1 - 1e-9),
        knee_tokens=max(one.knee_tokens, two.knee_tokens),
        excess_s=min(one.excess_s, two.excess_s) * (1 - 1e-9),
    )
    steeper = Line(
        intercept_s=one.intercept_s, slope_s=one.slope_s * rng.choice([0.5, 1.1]),
        knee_tokens=rng.randint(1, 8), excess_s=one.excess_s * rng.choice([0, 0.5, 2]),
    )  # fmt: skip
    return rng.choice([one, mean, steeper])


def random_time(rng: random.Random, instance: Instance) -> OfflineTime:
    """An argument that ignores arrivals."""
    count = random_count(rng, instance)
    lines = tuple(random_line(rng, instance) for _ in range(rng.randint(1, 4)))
    return rng.choice(
        [
            LineTime(count=count, line=lines[0]),
            BalancedTime(count=count),
            PhasesTime(
                count=count, remaining=rng.randint(0, 4), lines=lines,
                intervals=rng.choice([1, 2, 5, 1000]),
            ),
        ]
    )  # fmt: skip


def random_argument(rng: random.Random, instance: Instance) -> Argument:
    """Any argument about ``instance``."""
    kind = rng.random()
    if kind < 0.1:
        return PathTime(request=rng.choice(instance.requests).id)
    if kind < 0.3:
        start = rng.choice(instance.requests).arrival_s + rng.choice([0.0, 0.0, -1.0, 1e-3])
        return ArrivalTime(from_s=start, late=random_time(rng, instance))
    return random_time(rng, instance)


def random_prices(rng: random.Random, instance: Instance, batches: int) -> PricedTime:
    """Prices for schedules of about ``batches`` batches."""
    horizons, most = [], 0
    for _ in range(rng.randint(1, 2)):
        most += rng.choice([batches, batches + 1, 1, 2])
        stride = instance.limits.block_tokens * rng.choice([1, 1, 2])
        horizons.append(_random_horizon(rng, instance, most, stride))
    largest = int(instance.prompt_tokens.max())
    cells = sorted({*rng.sample(range(1, largest + 1), rng.randint(0, largest)), largest})
    steepest = max(beta for _, beta in instance.cost.pieces)
    pricing = BatchPricing(
        cells=tuple(cells), counted=rng.random() < 0.5, knee_tokens=rng.randint(1, 6),
        excess_s=rng.choice([0.0, steepest / 2]), beyond_slope_s=rng.choice([0.0, steepest / 3]),
        horizons=tuple(horizons),
    )  # fmt: skip
    return PricedTime(
        count=rng.choice([ChainCount(), MemoryCount(), TokenCount()]), pricing=pricing
    )


def _random_horizon(
    rng: random.Random, instance: Instance, most: int, stride: int
) -> PricedBatches:
    bucket = stride * rng.choice([1, 1, 2, 3])
    scale = rng.choice([1e-4, 1e-3, 1e-2, 0.2]) * 2**40

    def column(*shares: float) -> tuple[int, ...]:
        share, flat = rng.choice(shares), rng.random() < 0.3
        same = rng.random()
        return tuple(
            int(scale * share * (same if flat else rng.random())) for _ in range(-(-most // bucket))
        )

    limited = instance.limits.batch_requests is not None or rng.random() < 0.1
    return PricedBatches(
        most_batches=most, bucket_batches=bucket, stride=stride, unit_bits=40,
        memory=column(0, 0.2, 1), tokens=column(0, 0, 0.3), prefill=column(0, 0, 0.3),
        requests=column(0, 0, 1) if limited else column(0),
    )  # fmt: skip
