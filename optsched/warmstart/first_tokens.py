"""First tokens first: fills of the shortest prompts in groups, everything else afterwards.

For mean TTFT alone decodes can be put off for ever. So while first tokens are missing the machine
only fills, and drops the KV of what it filled in the batch after; when all first tokens are there,
the requests are filled again and decoded, least machine time first. What is left is how to group
fills: the shortest come first, and one more joins a batch of k as long as what it delays these,
k times its own time, is less than what a batch of its own would cost all that wait (bounds, B7: one
machine, batches that end together, a set-up each). That is the other end of what a scheduler can
do, and says what TTFT is worth without latency beside it.
"""

from __future__ import annotations

import heapq

import msgspec
import numpy as np

from optsched.cost import CostModel
from optsched.instance import Instance, IntArray
from optsched.schedule import Kind, Schedule
from optsched.warmstart.clock_families import machine_time_s
from optsched.warmstart.ranked_lookahead import RankOptions, ranked_look_ahead

_Runs = list[tuple[int, int, int, int, int]]  # request, kind, first batch, batches, tokens


def first_tokens_first(instance: Instance) -> Schedule:
    """All first tokens as early as grouping allows, then all the rest."""
    groups = _groups(instance)
    runs: _Runs = []
    batch, last = 0, groups[-1]
    for k, group in enumerate(groups):
        chunks = _chunks(instance, group)
        for request, sizes in chunks:
            runs += [
                (request, int(Kind.PROCESS), batch + 1 + j, 1, size) for j, size in enumerate(sizes)
            ]
        batch += len(chunks[0][1])
        if k + 1 < len(groups):
            runs += _evictions(instance, group, batch + 1)
    batch = _end_last(instance, last, runs, batch)
    rest = _rest(instance, last)
    if rest.size:
        runs += _decoded(instance, rest, batch)
    request, kind, first, batches, tokens = np.array(runs, dtype=np.int64).T
    return Schedule(
        request=request, kind=kind, first_batch=first, batches=batches, tokens=tokens
    ).merged()


def _groups(instance: Instance) -> list[list[int]]:
    """Requests filled together, in order, among those that have arrived."""
    cost, limits = instance.cost, instance.limits
    prompt = instance.prompt_tokens.tolist()
    arrival = np.argsort(instance.release_s, kind="stable").tolist()
    release = instance.release_s.tolist()
    most = limits.batch_requests or len(instance)
    waiting: list[tuple[int, int]] = []
    groups, now, arrived = [], 0.0, 0
    while waiting or arrived < len(arrival):
        if not waiting:
            now = max(now, release[arrival[arrived]])
        while arrived < len(arrival) and release[arrival[arrived]] <= now:
            heapq.heappush(waiting, (prompt[arrival[arrived]], arrival[arrived]))
            arrived += 1
        group = [heapq.heappop(waiting)[1]]
        tokens, pages = prompt[group[0]], limits.pages(prompt[group[0]])
        while waiting and len(group) < most:
            size = waiting[0][0]
            pages += limits.pages(size)
            if tokens + size > limits.fill_tokens or pages > limits.kv_tokens:
                break
            if not _joins(cost, tokens, size, len(group), len(waiting)):
                break
            tokens += size
            group.append(heapq.heappop(waiting)[1])
        groups.append(group)
        now += _fills_s(cost, [prompt[r] for r in group], limits.fill_tokens)
    return groups


def _joins(cost: CostModel, tokens: int, size: int, members: int, waiting: int) -> bool:
    """Whether a fill of ``size`` tokens joins a batch of ``members`` fills."""
    alone, together = (float(cost.token_time(n)) for n in (size, tokens + size))
    setup = float(cost.token_time(tokens)) + alone - together + cost.p0
    own = alone + cost.p0 - setup + float(cost.prefill_time(size, 0))
    return members * own <= setup * waiting


def _fills_s(cost: CostModel, prompts: list[int], most: int) -> float:
    """Time of the batches of one group: one, or those of a prompt that exceeds a batch."""
    seconds = 0.0
    for done in range(0, max(prompts), most):
        sizes = [min(most, p - done) for p in prompts]
        seconds += float(cost.token_time(sum(sizes))) + cost.p0
        seconds += sum(float(cost.prefill_time(size, done)) for size in sizes)
    return seconds


def _chunks(instance: Instance, group: list[int]) -> list[tuple[int, list[int]]]:
    """Tokens of each member's fill by batch; only a group of one takes several batches."""
    most, found = instance.limits.fill_tokens, []
    for request in group:
        prompt = int(instance.prompt_tokens[request])
        found.append((request, [min(most, prompt - k) for k in range(0, prompt, most)]))
    return found


def _evictions(instance: Instance, group: list[int], batch: int) -> _Runs:
    return [
        (r, int(Kind.EVICT), batch, 1, 0) for r in group if int(instance.output_tokens[r]) > 1
    ]  # fmt: skip


def _end_last(instance: Instance, last: list[int], runs: _Runs, batch: int) -> int:
    """Nothing but a batch that processes something can evict the last group, so its request with
    the fewest decodes goes on to its end; returns the last batch."""
    unfinished = [r for r in last if int(instance.output_tokens[r]) > 1]
    if not unfinished:
        return batch
    kept = min(unfinished, key=lambda r: (int(instance.output_tokens[r]), r))
    decodes = int(instance.output_tokens[kept]) - 1
    runs.append((kept, int(Kind.PROCESS), batch + 1, decodes, 1))
    runs += _evictions(instance, [r for r in unfinished if r != kept], batch + 1)
    return batch + decodes


def _rest(instance: Instance, last: list[int]) -> IntArray:
    """Requests that lack tokens after the first, but for the one that went on to its end."""
    lacking = instance.output_tokens > 1
    unfinished = [r for r in last if lacking[r]]
    if unfinished:
        lacking[min(unfinished, key=lambda r: (int(instance.output_tokens[r]), r))] = False
    return np.flatnonzero(lacking)


def _decoded(instance: Instance, rest: IntArray, batch: int) -> _Runs:
    """Runs of the rest, all of it there, with the first token as part of the prompt."""
    requests = tuple(
        msgspec.structs.replace(
            instance.requests[r], arrival_s=0.0,
            prompt_tokens=instance.requests[r].prompt_tokens + 1,
            output_tokens=instance.requests[r].output_tokens - 1,
        )
        for r in rest.tolist()
    )  # fmt: skip
    later = msgspec.structs.replace(instance, requests=requests)
    options = RankOptions(rank=machine_time_s(later))
    schedule = ranked_look_ahead(later, options).schedule(later)
    columns = (
        rest[schedule.request], schedule.kind, schedule.first_batch + batch, schedule.batches,
        schedule.tokens,
    )  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))
