"""B1 and B2 together: each argument where it is the one that decides, and is exact."""

from __future__ import annotations

import pytest

from optsched.bounds import batch_count
from optsched.bounds.batch_count import event_batches, prefill_batches
from optsched.bounds.events import token_runs
from optsched.instance import Call, Instance, Limits, Request
from tests.bounds.workloads import UNIT, shaped, uniform
from tests.oracle import optimum

DECIDED = [
    ("B1 memory area", shaped([(3, 1), (2, 1), (2, 1), (2, 1)], kv_tokens=6), 2),
    ("B1 chain", shaped([(10, 3)], batch_tokens=4), 5),
    ("B1 prompts", shaped([(4, 2)] * 3, prefill_tokens=4), 4),
    ("B1 tokens", shaped([(1, 3)] * 3, batch_tokens=2), 5),
    ("B1 requests", shaped([(1, 2)] * 2, batch_requests=1), 4),
    ("B1 majority", shaped([(3, 2)] * 2, kv_tokens=5), 4),
    ("B1 majority", shaped([(3, 1)] * 4, kv_tokens=6, block_tokens=2), 4),
    ("B2 away from the ends", shaped([(1, 4)] * 3, kv_tokens=6), 7),
    ("B2 away from the ends", shaped([(2, 3)] * 3, kv_tokens=6), 6),
]


@pytest.mark.parametrize(("proof", "instance", "batches"), DECIDED)
def test_each_argument_where_it_is_exact(proof: str, instance: Instance, batches: int) -> None:
    found = batch_count(instance)
    assert (found.proof, found.batches) == (proof, batches)
    assert optimum(instance)[0] == batches


def test_the_ramp_adds_the_batches_before_anything_is_large() -> None:
    parts = batch_count(shaped([(1, 4)] * 3, kv_tokens=6)).parts
    assert parts["B1 memory area"] == 5  # 3 (1 + 2 + 3 + 4) / 6
    assert parts["B1 memory ramp"] == 6  # 1 + 3 (2 + 3 + 4) / 6


def test_a_chunk_of_one_token_in_a_first_fill_counts_against_the_prefill_limit() -> None:
    # 5 tokens at 4 per batch: the last chunk is one token, and is prefill, as m < I.
    assert batch_count(shaped([(5, 1)], prefill_tokens=4)).batches == 2
    assert batch_count(shaped([(5, 1)] * 4, prefill_tokens=4)).batches == 5


def test_a_response_may_end_as_a_decode() -> None:
    # Two requests append 2 tokens after the one just made; of those 3 tokens 2 are prefill.
    call = (Call(after_tokens=1, duration_s=0.0, response_tokens=2),)
    requests = tuple(
        Request(id=name, prompt_tokens=1, output_tokens=2, calls=call) for name in "ab"
    )
    limits = Limits(kv_tokens=100, batch_tokens=100, prefill_tokens=2)
    instance = Instance(name="c", limits=limits, cost=UNIT, requests=requests)
    assert batch_count(instance).parts["B1 prompts"] == 3  # ceil((2 + 4) / 2)
    assert batch_count(instance).parts["B1 chain"] == 3  # 1, then 3 tokens at 2 per batch


def test_pages_round_every_size_up() -> None:
    loose = batch_count(shaped([(1, 2)] * 8, kv_tokens=16)).parts["B1 memory area"]
    paged = batch_count(shaped([(1, 2)] * 8, kv_tokens=16, block_tokens=4)).parts["B1 memory area"]
    assert (loose, paged) == (2, 4)  # 24 / 16 against 16 pages / 4


def test_memory_that_is_no_whole_page_is_lost() -> None:
    assert batch_count(shaped([(4, 1)] * 2, kv_tokens=7, block_tokens=4)).batches == 2


@pytest.mark.parametrize(
    ("prompt", "output", "area"), [(1, 512, 1345), (1, 1024, 5374), (32, 32, 487)]
)
def test_area_of_long_uniform_requests(prompt: int, output: int, area: int) -> None:
    kv_tokens = 100_000 if output > 32 else 3200
    found = batch_count(uniform(1024, prompt, output, kv_tokens))
    assert found.parts["B1 memory area"] == area
    assert found.batches >= area


def test_the_ramp_of_the_studied_long_outputs() -> None:
    assert batch_count(uniform(1024, 1, 512, 100_000)).parts["B1 memory ramp"] == 1394


def test_prefill_batches_by_tokens_pages_chunks_and_requests() -> None:
    def count(instance: Instance) -> int:
        return prefill_batches(token_runs(instance), instance.limits)

    assert count(shaped([(4, 9)] * 3, prefill_tokens=6)) == 2
    assert count(shaped([(4, 1)] * 3, kv_tokens=5)) == 3
    assert count(shaped([(10, 1), (1, 1)], batch_tokens=4)) == 3
    assert count(shaped([(1, 5)] * 5, batch_requests=2)) == 3


def test_event_batches_of_the_decodes() -> None:
    def count(instance: Instance) -> int:
        return event_batches(token_runs(instance).decodes(), instance.limits)

    assert count(shaped([(3, 1)])) == 0
    assert count(shaped([(3, 4), (1, 2)])) == 3
    assert count(shaped([(3, 2)] * 3, kv_tokens=6)) == 3
    assert count(shaped([(1, 3)] * 4, batch_tokens=3)) == 3
    assert count(shaped([(1, 3)] * 4, batch_requests=2)) == 4
