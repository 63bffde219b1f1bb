"""The state that a scheduler sees: who waits, who runs, how much KV is free, what time it is.

Requests are numbered by arrival (ties by their place in the instance), so that comparing numbers
compares arrivals. KV memory is counted in pages throughout; ``held`` pages of a fill, or of any
running request of a rule that reserves the final length, are its reservation, and a decode
otherwise holds the pages of its tokens.
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.warmstart.decodes import Decodes
from optsched.warmstart.forecast import Forecast
from optsched.warmstart.record import Record
from optsched.warmstart.rule import Order, Reserve, Rule
from optsched.warmstart.waiting import Arrivals, Ranked


def prefill_budget(instance: Instance, rule: Rule) -> int:
    """P: the smaller of the rule's and the instance's, and at most C."""
    fill = instance.limits.fill_tokens
    return fill if rule.prefill_tokens is None else min(fill, rule.prefill_tokens)


def page_budget(instance: Instance, rule: Rule) -> int:
    """Pages that M holds.

    vLLM's current engine loses one page to its null block where pages are larger than 1 token.
    That page is left in place when a request needs all of them, which the engine would refuse.
    """
    limits = instance.limits
    block = limits.block_tokens
    pages = limits.kv_tokens // block
    largest = -(-int(instance.final_tokens.max()) // block)
    loses_one = rule.reserve is Reserve.CHUNK and block > 1 and largest < pages
    return pages - 1 if loses_one else pages


class State:
    """Everything that changes from batch to batch.

    Parameters
    ----------
    instance : Instance
    rule : Rule

    Attributes
    ----------
    position : int array, shape ``(requests,)``
        Place in the instance of the request that arrives r-th.
    prompt, output, final, release : lists
        I, O, I + O - 1 and arrival of each request.
    known, cached, held : lists
        s, m and reserved pages of each request that waits or fills. A decode has ``cached`` 0
        here: its m is in ``decodes``.
    fills : list of int
        Running requests whose fill is under way, in the order of their keys.
    filled_in, evicted_in, blocked_until : lists
        Last batch that processed a fill or evicted the request, and the first one that a rule
        that looks ahead in time may admit it to.
    """

    def __init__(self, instance: Instance, rule: Rule) -> None:
        self.rule = rule
        self.cost = instance.cost
        self.offline = instance.offline
        self.block = instance.limits.block_tokens
        self.batch_tokens = instance.limits.batch_tokens
        self.prefill_tokens = prefill_budget(instance, rule)
        self.pages = page_budget(instance, rule)
        self.most_running = instance.limits.batch_requests or len(instance)
        self.position: IntArray = np.argsort(instance.release_s, kind="stable")
        self.prompt: list[int] = instance.prompt_tokens[self.position].tolist()
        self.output: list[int] = instance.output_tokens[self.position].tolist()
        self.final: list[int] = instance.final_tokens[self.position].tolist()
        self.release: list[float] = instance.release_s[self.position].tolist()
        self.count = len(instance)

        self.now = 0.0
        self.batch = 1
        self.arrived = 0
        self.unfinished = self.count
        self.admitted = 0
        self.used = 0
        self.known = list(self.prompt)
        self.cached = [0] * self.count
        self.held = [0] * self.count
        self.fills: list[int] = []
        self.filled_in = [0] * self.count
        self.evicted_in = [0] * self.count
        self.blocked_until = [0] * self.count
        self._admission = [0] * self.count
        self.record = Record()
        self.decodes = Decodes(self.count, self.block, self.record)
        self.forecast = Forecast() if rule.reserve is Reserve.EXPECTED else None
        self.sorted_queue = rule.ranked or rule.queue is not Order.ARRIVAL
        self.waiting: Arrivals | Ranked = Arrivals()
        if self.sorted_queue:
            ranks = [self._major(rule.queue, r, 0) * self.count + r for r in range(self.count)]
            self.waiting = Ranked(ranks)

    def pages_of(self, tokens: int) -> int:
        """ceil(tokens / b)."""
        return -(-tokens // self.block)

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return self.pages - self.used

    @property
    def running(self) -> int:
        """Number of requests that hold KV."""
        return len(self.fills) + len(self.decodes)

    def key(self, request: int, offset: int) -> int:
        """Place of a running request in the rule's order; ``offset`` is m - decode steps."""
        return self._major(self.rule.residents, request, offset) * self.count + request

    def _major(self, order: Order, request: int, offset: int) -> int:
        if order is Order.ARRIVAL:
            return 0
        if order is Order.PROMPT:
            return self.prompt[request]
        if order is Order.OUTPUT:
            return self.output[request]
        if order is Order.ADMISSION:
            return self._admission[request]
        return -offset

    def fill_key(self, request: int) -> int:
        """Place of a running fill in the rule's order."""
        return self.key(request, self.cached[request] - self.decodes.steps)

    def take_arrivals(self) -> None:
        """Queue everything that has arrived; if nothing else is left to do, wait for the next."""
        if not len(self.waiting) and not self.running and self.arrived < self.count:
            self.now = max(self.now, self.release[self.arrived])
        while self.arrived < self.count and self.release[self.arrived] <= self.now:
            self.waiting.arrive(self.arrived)
            self.arrived += 1

    def admit(self, pages: int) -> int:
        """Take the head of the queue into the running requests, holding ``pages``."""
        request = self.waiting.pop()
        self.admitted += 1
        self._admission[request] = self.admitted
        self.held[request] = pages
        self.used += pages
        self.fills.append(request)
        return request

    def evict(self, request: int) -> None:
        """Drop the KV of a running request and queue it again."""
        self.used -= self.pages_of_running(request)
        if self.cached[request]:
            self.fills.remove(request)
        else:
            self.known[request] = self.decodes.cached(request) + 1
            self.decodes.leave(request)
        self.cached[request] = 0
        self.evicted_in[request] = self.batch
        self.record.evicted(request, self.batch)
        self.waiting.give_back(request)

    def evicted_now(self, request: int) -> bool:
        """Whether the batch that is being formed evicted it, and so must not process it."""
        return self.evicted_in[request] == self.batch

    def pages_of_running(self, request: int) -> int:
        """Pages that a running request holds."""
        if self.cached[request] or self.rule.reserve is Reserve.FINAL:
            return self.held[request]
        return self.pages_of(self.decodes.cached(request))

    def last_running(self) -> int:
        """Key of the request to be evicted when a decode lacks memory.

        It is the last in the rule's order of the decodes and of the fills that are not in this
        batch. Decodes are served in that order, so it is the decode itself at the earliest.
        """
        last = self.decodes.keys[-1]
        for request in self.fills:
            if self.filled_in[request] != self.batch:
                last = max(last, self.fill_key(request))
        return last

    def next_key(self) -> int:
        """Place of the head of a ranked queue in the order of running requests."""
        assert isinstance(self.waiting, Ranked)
        return self.waiting.head_key()

    def finish(self, request: int, pages: int) -> None:
        """Release what a finished request held and learn from it."""
        self.used -= pages
        self.unfinished -= 1
        if self.forecast is not None:
            self.forecast.learn(self.prompt[request], self.final[request])
