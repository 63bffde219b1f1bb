"""A scheduler of one's own: short prompts first, and nobody is ever evicted.

optsched bound --scheduler docs/examples/shortest_first.py:shortest_first
"""

from __future__ import annotations

from optsched import Instance, Kind, Schedule
from optsched.errors import UnsupportedError
from optsched.schedule import from_steps


def shortest_first(instance: Instance, /) -> Schedule:
    """Decode everything that runs, then fill prompts with the tokens that are left.

    A request is admitted when its final length fits in memory beside those of the requests that
    run. Of the requests that arrive at once, the shortest prompt goes first.
    """
    if any(request.calls for request in instance.requests):
        raise UnsupportedError("shortest_first knows no calls")
    limits = instance.limits
    arrival, prompt = instance.release_s, instance.prompt_tokens
    waiting = sorted(range(len(instance)), key=lambda i: (arrival[i], prompt[i], i))
    to_fill = [request.prompt_tokens for request in instance.requests]
    to_make = [request.output_tokens for request in instance.requests]
    need = [limits.pages(request.final_tokens) for request in instance.requests]
    running: list[int] = []
    most_running = limits.batch_requests or len(instance)

    steps: list[tuple[int, int, int, int]] = []  # request, kind, batch, tokens
    batch = 0
    while waiting or running:
        batch += 1
        left = limits.batch_tokens
        decoding = [i for i in running if not to_fill[i]]
        for i in decoding[:left]:
            steps.append((i, Kind.PROCESS, batch, 1))
            to_make[i] -= 1
            left -= 1

        left = min(left, limits.fill_tokens)
        filling = [i for i in running if i not in decoding]
        while left:
            if not filling:
                free = limits.kv_tokens - sum(need[i] for i in running)
                if not waiting or len(running) == most_running or need[waiting[0]] > free:
                    break
                filling = [waiting.pop(0)]
                running += filling
            i = filling.pop(0)
            tokens = min(to_fill[i], left)
            steps.append((i, Kind.PROCESS, batch, tokens))
            left -= tokens
            to_fill[i] -= tokens
            if not to_fill[i]:
                to_make[i] -= 1  # the last chunk of the prompt makes the first token
        running = [i for i in running if to_make[i]]
    return from_steps(steps)
