"""The counting argument of a certificate is the best of its kind."""

from __future__ import annotations

import random

import pytest

from optsched.bounds.count_arguments import best_count
from optsched.bounds.verify.counts import batches
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.workload import Workload
from optsched.certificate import PromptCount, StepCount, TokenCount
from tests.bounds.workloads import shaped


@pytest.mark.parametrize("seed", range(40))
def test_no_other_tail_counts_more_batches(seed: int) -> None:
    rng = random.Random(seed)
    instance = shaped(
        [(rng.randint(1, 9), rng.choice([1, 3, 8, 9, 10])) for _ in range(rng.randint(4, 9))],
        batch_tokens=rng.randint(4, 12), prefill_tokens=rng.choice([None, 2, 3]),
        batch_requests=rng.choice([2, 4]),
    )  # fmt: skip
    workload = Workload(instance.requests, instance.limits, instance.cost)
    most, _ = best_count(instance)
    for kind in (TokenCount, PromptCount, StepCount):
        for tail in range(20):
            try:
                assert batches(workload, kind(tail=tail)) <= most, (kind, tail)
            except RefutedError:
                assert tail > 0, "something lies before the last 0 batches"
