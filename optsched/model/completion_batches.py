"""How many batches complete any state of a schedule, once its objective is settled.

After the last first token (mean TTFT) or the last token that counts (goodput) the rest of a
schedule may be replaced by any other. One that always exists: evict all but a group of requests
that fit together, run that group to its end, then the next one. Groups are taken in order of
arrival, so that ``fcfs`` holds, and a group is as many requests as fit at their largest.

The batch that evicts the others processes the group: its residents decode, and what is not
resident is filled, whole or from where its partial fill stood. Everybody in the group is processed
in every batch (``no-hold``). A group takes as many batches as its longest request has tokens left.
Under ``no-hybrid`` a resident first runs to its end alone, if there is one, in whose first batch
all others are evicted; from then on a group begins with one batch of fills only.

``no-evict`` forbids all this. If in addition every resident is processed in every batch, which
``nonpreemptive`` says and ``no-hold`` without chunks implies, the residents run to their end in
max O - 1 batches, as they would have done with others beside them, and the others follow in groups.

With calls or swapping requests are completed one by one (:mod:`optsched.model.calls_horizon`).
"""

from __future__ import annotations

from collections.abc import Collection

from optsched.instance import Instance
from optsched.model.calls_horizon import completion_alone


def completion_batches(
    instance: Instance, policies: Collection[str], *, unchunked: bool, started: bool
) -> int | None:
    """The most batches that the best completion of any state needs; None if that is not known.

    ``started`` says that every request has its first token. ``unchunked`` is the class of
    schedules; refills that do not fit into one batch then cannot be completed after an eviction.
    """
    swaps = instance.limits.host_kv_tokens > 0 and "no-swap" not in policies
    if instance.has_calls or swaps:
        return completion_alone(instance, policies, unchunked=unchunked)
    longest = int(instance.output_tokens.max()) - 1
    if {"no-evict", "nonpreemptive"} & set(policies):
        runs = "nonpreemptive" in policies or ("no-hold" in policies and unchunked)
        if not runs:
            return None
        return longest if started else longest + _in_groups(instance, started=False)
    if unchunked and int(instance.final_tokens.max()) > instance.limits.fill_tokens:
        return None
    alone = longest if "no-hybrid" in policies else 0
    return alone + _in_groups(instance, started=started)


def _in_groups(instance: Instance, *, started: bool) -> int:
    """Batches of all groups, none of whose requests need be resident."""
    limits = instance.limits
    most_requests = limits.batch_requests or len(instance)
    total = longest = requests = memory = tokens = 0
    for i in sorted(range(len(instance)), key=lambda i: float(instance.release_s[i])):
        request = instance.requests[i]
        if started and request.output_tokens == 1:
            continue
        size = request.final_tokens
        # A fill may take several batches; then the request is a group of its own.
        fill = request.prompt_tokens + started
        batches = -(-fill // limits.fill_tokens) + request.output_tokens - 1 - started
        requests, memory, tokens = requests + 1, memory + limits.pages(size), tokens + size
        if requests > most_requests or memory > limits.kv_tokens or tokens > limits.fill_tokens:
            total, longest = total + longest, 0
            requests, memory, tokens = 1, limits.pages(size), size
        longest = max(longest, batches)
    return total + longest
