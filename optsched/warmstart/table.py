"""The table of schedulers: every rule as data."""

from __future__ import annotations

from dataclasses import replace

from optsched.warmstart.rule import Group, Order, Reserve, Rule

# An unfinished fill goes on before new ones, so a rule that puts waiting requests first puts
# fills there too: vLLM without chunking knows no unfinished fill, and a forced chunk must not
# wait behind decodes that it was meant to precede.
_PREFILLS_FIRST = (Group.FILLS, Group.WAITING, Group.DECODES)
_DECODES_FIRST = (Group.DECODES, Group.FILLS, Group.WAITING)

# InferMax, Table 1.
_TABLE_1 = (
    Rule(
        name="vllm", groups=_PREFILLS_FIRST, hybrid=False, chunked=False,
        summary="vLLM 0.x: whole prefills first, apart from decodes",
    ),
    Rule(
        name="sarathi", groups=_DECODES_FIRST, prefill_tokens=512,
        summary="Sarathi-Serve: decodes first, then prefill chunks up to 512 tokens in all",
    ),
    Rule(
        name="sarathi-pc", groups=_DECODES_FIRST,
        summary="sarathi with chunks up to all of batch_tokens",
    ),
    Rule(
        name="sarathi-nocp", groups=_DECODES_FIRST, chunked=False,
        summary="sarathi without chunked prefill",
    ),
    Rule(
        name="vllm-hy", groups=_PREFILLS_FIRST, chunked=False,
        summary="vllm with hybrid batches",
    ),
    Rule(
        name="sarathi-nohy", groups=_DECODES_FIRST, hybrid=False, chunked=False,
        summary="sarathi without hybrid batches and chunks: waves of prefills, then decodes",
    ),
)  # fmt: skip


def _eviction_free(rule: Rule) -> Rule:
    return replace(
        rule,
        name=f"{rule.name}-ef",
        reserve=Reserve.FINAL,
        summary=f"{rule.name} that reserves the final length at admission and never evicts",
    )


def _ranked(name: str, order: Order, by: str) -> Rule:
    return Rule(
        name=name, groups=_DECODES_FIRST, ranked=True, queue=order, residents=order,
        summary=f"InferMax's ranking: running and waiting requests as one group, {by}",
    )  # fmt: skip


_OTHERS = (
    _ranked("rank-org", Order.ARRIVAL, "by arrival"),
    _ranked("rank-i", Order.PROMPT, "short prompts first"),
    _ranked("rank-o", Order.OUTPUT, "short outputs first"),
    Rule(
        name="infermax", groups=_DECODES_FIRST, residents=Order.CACHED, reserve=Reserve.EXPECTED,
        summary="sarathi-pc that evicts the shortest and admits by the expected final length",
    ),
    Rule(
        name="vllm-v1", groups=_DECODES_FIRST, prefill_apart=True, residents=Order.ADMISSION,
        reserve=Reserve.CHUNK, fills_evict=True, admits_after_eviction=False,
        summary="vLLM 1.x: one token budget, KV pages taken as they are computed",
    ),
    Rule(
        name="pair", groups=_DECODES_FIRST, residents=Order.CACHED,
        summary="for very small memory: the most advanced runs to its end, the youngest is evicted",
    ),
    Rule(
        name="mc-sf", groups=_DECODES_FIRST, chunked=False, queue=Order.OUTPUT,
        reserve=Reserve.PROFILE,
        summary="Jaillet et al.: short outputs first while memory suffices to the end",
    ),
    Rule(
        name="mc-fcfs", groups=_DECODES_FIRST, chunked=False, reserve=Reserve.PROFILE,
        summary="by arrival while memory suffices to the end",
    ),
)  # fmt: skip

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (*_TABLE_1, *map(_eviction_free, _TABLE_1), *_OTHERS)
}
