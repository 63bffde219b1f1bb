"""Small examples worked by hand: who runs in each batch, and who is evicted.

Every batch takes one second. A table has one row per batch: request -> tokens, or "E" for an
eviction. Prompt and output lengths are given as (I, O).
"""

from __future__ import annotations

from typing import Any

from optsched.instance import Instance, Limits, Request
from optsched.schedule import Kind
from optsched.warmstart import notes, scheduler
from tests.warmstart.workloads import UNIT

Row = dict[int, int | str]


def instance_of(
    *shapes: tuple[int, int], kv: int = 1000, arrivals: tuple[float, ...] = (), **limits: Any
) -> Instance:
    times = arrivals or (0.0,) * len(shapes)
    return Instance(
        name="by hand",
        limits=Limits(kv_tokens=kv, **{"batch_tokens": 1000, **limits}),
        cost=UNIT,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, arrival_s=at)
            for i, ((prompt, output), at) in enumerate(zip(shapes, times, strict=True))
        ),
    )


def table(name: str, instance: Instance) -> list[Row]:
    schedule = scheduler(name)(instance)
    rows: list[Row] = [{} for _ in range(schedule.batch_count)]
    for i in range(len(schedule)):
        request, tokens = int(schedule.request[i]), int(schedule.tokens[i])
        for batch in range(schedule.batches[i]):
            rows[schedule.first_batch[i] - 1 + batch][request] = (
                "E" if schedule.kind[i] == Kind.EVICT else tokens
            )
    return rows


def test_the_last_admitted_is_evicted() -> None:
    """Both prompts fit, and so does one decode each (M = 10); then r0 takes what r1 holds. The
    refill of r1 processes 4 + 2 tokens and makes its third."""
    pair = instance_of((4, 3), (4, 3), kv=10)
    expected: list[Row] = [{0: 4, 1: 4}, {0: 1, 1: 1}, {0: 1, 1: "E"}, {1: 6}]
    for name in ("vllm", "vllm-hy", "sarathi", "sarathi-nocp", "rank-org", "vllm-v1"):
        assert table(name, pair) == expected, name


def test_eviction_free_reserves_the_final_length() -> None:
    """6 + 6 tokens exceed M = 10, so r1 waits for the end of r0."""
    pair = instance_of((4, 3), (4, 3), kv=10)
    expected: list[Row] = [{0: 4}, {0: 1}, {0: 1}, {1: 4}, {1: 1}, {1: 1}]
    for name in ("vllm-ef", "vllm-hy-ef", "sarathi-ef", "sarathi-nohy-ef"):
        assert table(name, pair) == expected, name


def test_hybrid_and_chunked_batches_under_a_token_limit() -> None:
    """C = 8 holds the prompts of r0 and r1; r2 lacks 2 tokens."""
    three = instance_of((4, 3), (3, 2), (3, 2), batch_tokens=8)
    assert table("vllm", three) == [{0: 4, 1: 3}, {2: 3}, {0: 1, 1: 1, 2: 1}, {0: 1}]
    whole: list[Row] = [{0: 4, 1: 3}, {0: 1, 1: 1, 2: 3}, {0: 1, 2: 1}]
    assert table("vllm-hy", three) == whole
    assert table("sarathi-nocp", three) == whole
    assert table("sarathi-pc", three) == [
        {0: 4, 1: 3, 2: 1},
        {0: 1, 1: 1, 2: 2},
        {0: 1, 2: 1},
    ]
    # Decodes first and never together with prefills: r2 waits until nobody decodes.
    assert table("sarathi-nohy", three) == [{0: 4, 1: 3}, {0: 1, 1: 1}, {0: 1}, {2: 3}, {2: 1}]


def test_vllm_holds_decodes_while_prompts_fit_and_sarathi_does_not() -> None:
    """r1 arrives while r0 decodes, at the very start of batch 2."""
    late = instance_of((2, 3), (2, 1), arrivals=(0.0, 1.0))
    assert table("vllm", late) == [{0: 2}, {1: 2}, {0: 1}, {0: 1}]
    assert table("sarathi", late) == [{0: 2}, {0: 1, 1: 2}, {0: 1}]


def test_sarathi_counts_decodes_against_512() -> None:
    """The first chunk is 512; with r0 decoding, 511 are left for r1's 600."""
    long = instance_of((600, 3), (600, 1), kv=2000)
    assert table("sarathi", long) == [{0: 512}, {0: 88, 1: 424}, {0: 1, 1: 176}, {0: 1}]
    fits = instance_of((1, 3), (600, 1), arrivals=(0.0, 1.0))
    assert table("sarathi", fits) == [{0: 1}, {0: 1, 1: 511}, {0: 1, 1: 89}]
    assert table("sarathi-pc", fits) == [{0: 1}, {0: 1, 1: 600}, {0: 1}]


def test_vllm_hy_may_evict_the_decode_that_it_is_about_to_serve() -> None:
    """r1 is admitted first and fills M = 10 with r0's 5, which then finds no victim behind it. Once
    back at the front, r0 refills 6 tokens after r1 has gone."""
    late = instance_of((5, 3), (5, 1), kv=10, arrivals=(0.0, 1.0))
    assert table("vllm-hy", late) == [{0: 5}, {0: "E", 1: 5}, {0: 6}, {0: 1}]


def test_a_forced_chunk_has_the_batch_to_itself() -> None:
    """A prompt of 6 exceeds C = 4 and is cut into 4 + 2. vllm starts it at once; sarathi-nocp
    only when no decode takes a token of the batch."""
    forced = instance_of((2, 3), (6, 1), batch_tokens=4)
    assert table("sarathi-nocp", forced) == [{0: 2}, {0: 1}, {0: 1}, {1: 4}, {1: 2}]
    assert table("mc-fcfs", forced) == [{0: 2}, {0: 1}, {0: 1}, {1: 4}, {1: 2}]
    assert table("vllm", forced) == [{0: 2}, {1: 4}, {1: 2}, {0: 1}, {0: 1}]
    assert "1 of 2 prompts exceed" in notes("vllm", forced)[0]
    assert notes("sarathi", forced) == ()


def test_a_refill_that_lacks_one_token_is_a_decode() -> None:
    """C = 3 cuts the refill of r1 (4 tokens) into 3 and a step that reads 3 and adds one, which
    shares its batch with the decode of r0: no prefill is in it."""
    pair = instance_of((3, 6), (3, 3), kv=9, batch_tokens=3)
    assert table("vllm", pair) == [
        {0: 3},
        {1: 3},
        {0: 1, 1: 1},  # 4 + 4 tokens
        {0: 1, 1: "E"},  # 5 + 5 exceed 9
        {0: 1},
        {0: 1},
        {0: 1},  # done with 8 tokens in KV
        {1: 3},
        {1: 2},
    ]


def test_rank_i_serves_short_prompts_first() -> None:
    """r1 and r2 fill C = 5; r0 gets what they leave."""
    three = instance_of((5, 2), (2, 2), (3, 2), batch_tokens=5)
    assert table("rank-i", three) == [{1: 2, 2: 3}, {0: 3, 1: 1, 2: 1}, {0: 2}, {0: 1}]
    assert table("rank-org", three) == [{0: 5}, {0: 1, 1: 2, 2: 2}, {1: 1, 2: 1}, {2: 1}]


def test_rank_o_serves_short_outputs_first() -> None:
    three = instance_of((2, 4), (2, 1), (2, 2), batch_tokens=4)
    assert table("rank-o", three) == [{1: 2, 2: 2}, {0: 2, 2: 1}, {0: 1}, {0: 1}, {0: 1}]


def test_a_ranked_request_evicts_one_behind_it_to_be_admitted() -> None:
    """r1 needs 4 tokens and 3 are free; r0, of the longer prompt, holds 6."""
    late = instance_of((6, 4), (4, 1), kv=9, arrivals=(0.0, 1.0))
    assert table("rank-i", late) == [{0: 6}, {0: "E", 1: 4}, {0: 7}, {0: 1}, {0: 1}]
    assert table("rank-org", late) == [{0: 6}, {0: 1}, {0: 1}, {0: 1}, {1: 4}]


def test_infermax_evicts_the_shortest() -> None:
    """M = 10 is full after one decode each; r1 with 7 tokens outranks r0 with 3."""
    pair = instance_of((2, 5), (6, 3), kv=10)
    assert table("infermax", pair) == [
        {0: 2, 1: 6}, {0: 1, 1: 1}, {0: "E", 1: 1}, {0: 4}, {0: 1}, {0: 1},
    ]  # fmt: skip
    assert table("sarathi-pc", pair)[2] == {0: 1, 1: "E"}


def test_infermax_admits_by_the_expected_length() -> None:
    """r0 has finished with 7 tokens when the others of its bucket arrive. Beside r1's 4 only 6 are
    free, so r2 waits although its prompt fits; it then expects (7 + 4) / 2, rounded up."""
    three = instance_of((4, 4), (4, 1), (4, 3), kv=10, arrivals=(0.0, 10.0, 10.0))
    assert table("infermax", three)[4:] == [{1: 4}, {2: 4}, {2: 1}, {2: 1}]
    assert table("sarathi-pc", three)[4:] == [{1: 4, 2: 4}, {2: 1}, {2: 1}]


def test_vllm_v1_reserves_no_prompt() -> None:
    """r1 starts with the 2 tokens that C = 8 leaves, and is evicted when the other 4 do not fit;
    sarathi-pc finds its 6 tokens not free and does not admit it."""
    pair = instance_of((6, 2), (6, 2), kv=10, batch_tokens=8)
    assert table("vllm-v1", pair) == [{0: 6, 1: 2}, {0: 1, 1: "E"}, {1: 6}, {1: 1}]
    assert table("sarathi-pc", pair) == [{0: 6}, {0: 1}, {1: 6}, {1: 1}]


def test_vllm_v1_admits_nobody_in_a_batch_that_evicts() -> None:
    """Batch 3: r0 takes the last token and r1 lacks one, so it evicts itself."""
    trio = instance_of((3, 4), (3, 3), (1, 1), kv=9, batch_requests=2)
    assert table("vllm-v1", trio) == [
        {0: 3, 1: 3}, {0: 1, 1: 1}, {0: 1, 1: "E"}, {0: 1}, {1: 5, 2: 1},
    ]  # fmt: skip


def test_vllm_v1_loses_a_page_to_the_null_block() -> None:
    """Four pages of 4 tokens hold both requests to their end; three do not."""
    pair = instance_of((4, 2), (4, 2), kv=16, block_tokens=4)
    assert table("vllm-v1", pair) == [{0: 4, 1: 4}, {0: 1, 1: "E"}, {1: 5}]
    assert table("sarathi-pc", pair) == [{0: 4, 1: 4}, {0: 1, 1: 1}]
    alone = instance_of((4, 13), kv=16, block_tokens=4)
    assert len(table("vllm-v1", alone)) == 13
    assert "null block" in notes("vllm-v1", alone)[0]


def test_pages_are_taken_whole() -> None:
    """Pages of 4: prompts of 3 take one each and decode into it; the fifth token needs another."""
    pair = instance_of((3, 3), (3, 3), kv=8, block_tokens=4)
    assert table("sarathi", pair) == [{0: 3, 1: 3}, {0: 1, 1: 1}, {0: 1, 1: "E"}, {1: 5}]


def test_mc_admits_when_memory_suffices_to_the_end() -> None:
    """M = 8. mc-sf: r1 and r2 start; r0 (4 tokens, growing) would meet the end of r2 with
    4 + 6, a batch later with 4 + 5, and then with 4 + 4. mc-fcfs: r0 and r1 start; r2 meets the
    end of r0 until that is over."""
    three = instance_of((4, 4), (2, 1), (2, 3), kv=8)
    assert table("mc-sf", three) == [{1: 2, 2: 2}, {2: 1}, {0: 4, 2: 1}, {0: 1}, {0: 1}, {0: 1}]
    assert table("mc-fcfs", three) == [
        {0: 4, 1: 2}, {0: 1}, {0: 1}, {0: 1}, {2: 2}, {2: 1}, {2: 1},
    ]  # fmt: skip


def test_batch_requests_caps_what_runs() -> None:
    three = instance_of((2, 2), (2, 2), (2, 1), batch_requests=2)
    assert table("sarathi", three) == [{0: 2, 1: 2}, {0: 1, 1: 1}, {2: 2}]


def test_decodes_beyond_the_token_limit_are_held() -> None:
    """C = 2 lets two of three decode; the third keeps its KV and follows."""
    three = instance_of((1, 3), (1, 3), (1, 3), batch_tokens=2)
    assert table("vllm", three) == [
        {0: 1, 1: 1}, {2: 1}, {0: 1, 1: 1}, {0: 1, 1: 1}, {2: 1}, {2: 1},
    ]  # fmt: skip


def test_an_arrival_ends_a_stretch_of_equal_batches() -> None:
    """r1 arrives at 2.5 s, within batch 3, and joins batch 4; r2 finds the machine idle."""
    late = instance_of((2, 5), (2, 1), (1, 1), arrivals=(0.0, 2.5, 50.0))
    assert table("sarathi", late) == [{0: 2}, {0: 1}, {0: 1}, {0: 1, 1: 2}, {0: 1}, {2: 1}]
