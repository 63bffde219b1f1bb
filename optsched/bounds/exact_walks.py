"""B4, closed walks, evaluated exactly for given prices and potentials.

Stage v of a request is its token event v = 1 .. O; from the batch that makes it, which then holds
S = I + v - 1 tokens, until the next event or an eviction the request is *resident at v*. Let R be
the multiset of resident stages after a batch. The next batch evicts some of R, decodes some (stage
v becomes v + 1) and holds the others, and some requests are filled from the pool to a stage: a
first fill to v = 1, else a refill, however many chunks it took and wherever they were (partial
fills belong to the pool; leaving their KV out only helps). Each memory content, with the requests
that finish in it, fits in M. A schedule is thus a walk over such multisets that starts at the
empty one, and by B0, with a line a + b n below the batch-time law,

    T >= a N + sum over events of (first fill or decode) + sum over refills of delta(S) + p0 Np

where delta(S) is what the cheapest refill to S tokens costs more than the decode, maybe less than
nothing (or a copy from host memory and back, where there is some), and decodes also pay their
share of d0. Nothing is assumed of C, P, ``batch_requests``, chunks or arrivals.

**Small stages.** The first stages of a type may be left out of the content: a request that decodes
from the last of them enters the first one that is followed as if filled for nothing, and the events
of small stages only have to fit, batch by batch, in what the content leaves free.

**Prices.** Let best(f) be the most that f free pages earn at a price q >= 0 for each event of a
small stage: a knapsack. For prices u of the other events and potentials phi of contents with

    phi(Q') - phi(Q) <= a - best(free(Q')) + sum of delta - sum of u       for every batch Q -> Q'

the walk telescopes: T >= W + p0 Np + sum q + sum u + min phi - phi(empty).

**Micro-steps.** A batch is a chain of unit moves on the content: evictions, then decodes from the
last stage to the first, then fills. So nothing decodes twice, and as memory only grows after the
evictions every content on the way fits if the last one does. One pass of least values over all
contents therefore covers all batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from optsched.bounds.verify.counts import prefill_batches
from optsched.bounds.verify.events import pages_of
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.workload import Workload
from optsched.certificate import Line
from optsched.instance import Instance
from optsched.walk_pricing import WalkPricing

Content = tuple[int, ...]
_MOST_CONTENTS = 1_000_000
_MOST_HELD = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A stage of a type that walks follow.

    Parameters
    ----------
    pages : int
        Held by a request that is resident at it.
    requests : int
        Number of its events that every schedule has.
    refill : int
        What a fill to it costs beyond a decode, in units of 2 ** -bits seconds, rounded down.
    moves_on : bool
        Whether the next kind is the same type's next stage.
    """

    pages: int
    requests: int
    refill: int
    moves_on: bool


@dataclass(frozen=True, kw_only=True)
class WalkGround:
    """What does not depend on prices. ``base_s``: W + p0 Np; ``batch``: a in units; ``small``:
    (pages, requests) of each small stage."""

    cap: int
    base_s: Fraction
    batch: int
    kinds: tuple[Kind, ...]
    small: tuple[tuple[int, int], ...]


def types_of(instance: Instance) -> list[tuple[int, int, int]]:
    """(prompt, output, number of requests) of each type of ``instance``, ascending."""
    found: dict[tuple[int, int], int] = {}
    for request in instance.requests:
        shape = request.prompt_tokens, request.output_tokens
        found[shape] = found.get(shape, 0) + 1
    return [(*shape, count) for shape, count in sorted(found.items())]


def walk_ground(
    instance: Instance, left_out: Sequence[int], intercept_s: float, slope_s: float, unit_bits: int
) -> WalkGround:
    """Work and kinds of ``instance`` under a line of the batch-time law; ``left_out``: number of
    small stages per type.

    Raises
    ------
    RefutedError
        The line is not below the law, or requests make calls.
    """
    hold(not instance.has_calls, "requests that make calls are not covered")
    limits, cost = instance.limits, instance.cost
    load = Workload(instance.requests, limits, cost)
    units = units_for([*cost_doubles(cost), cost.swap_tok, intercept_s, slope_s], load.cap)
    line = Line(intercept_s=intercept_s, slope_s=slope_s, knee_tokens=limits.batch_tokens)
    law = law_of(cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    steps = steps_of(cost, limits.fill_tokens, units, units.of(slope_s))
    d0_of_page, copied = units.of(cost.d0) // load.cap, 2 * units.of(cost.swap_tok)
    block = limits.block_tokens

    def decode(size: int) -> int:
        return steps.decode(size) + d0_of_page * pages_of(size, block)

    def delta(size: int) -> int:
        # A refill whose last token is alone ends as the decode that it replaces.
        least = min(steps.fill(size) - decode(size), steps.fill(size - 1))
        if limits.host_kv_tokens:
            least = min(least, copied * (size - 1))
        return (least << unit_bits) // units.per_second

    work, kinds, small = 0, [], []
    gained = 0  # by refills to small stages that are cheaper than the decode
    for (prompt, output, count), less in zip(types_of(instance), left_out, strict=True):
        work += count * steps.fill(prompt)
        work += count * sum(decode(size) for size in range(prompt + 1, prompt + output))
        small += [(pages_of(prompt + stage, block), count) for stage in range(less)]
        gained += count * sum(min(0, delta(prompt + stage)) for stage in range(1, less))
        for stage in range(less, output):
            size = prompt + stage
            refill = delta(size) if stage else 0
            kinds.append(
                Kind(
                    pages=pages_of(size, block), requests=count, moves_on=stage + 1 < output,
                    refill=min(0, refill) if stage == less else refill,
                )
            )  # fmt: skip
    setups = units.of(cost.p0) * prefill_batches(load)
    return WalkGround(
        cap=load.cap, base_s=units.seconds(work + setups) + Fraction(gained, 2**unit_bits),
        batch=(units.of(intercept_s) << unit_bits) // units.per_second, kinds=tuple(kinds),
        small=tuple(small),
    )  # fmt: skip


def best_earnings(cap: int, items: Iterable[tuple[int, int]]) -> list[int]:
    """The most that 0 .. ``cap`` free pages earn with any number of each item (pages, price)."""
    best = [0] * (cap + 1)
    kept = [(pages, price) for pages, price in items if price > 0]
    for free in range(1, cap + 1):
        fits = [best[free - pages] + price for pages, price in kept if pages <= free]
        best[free] = max([best[free - 1], *fits])
    return best


def contents(pages: list[int], cap: int) -> Iterator[Content]:
    """All multisets of kinds that fit in ``cap`` pages, as ascending tuples of kind numbers, in
    lexicographic order (the empty one first)."""
    pending: list[tuple[Content, int]] = [((), cap)]
    while pending:
        content, free = pending.pop()
        yield content
        lowest = content[-1] if content else 0
        for kind in range(len(pages) - 1, lowest - 1, -1):
            if pages[kind] <= free:
                pending.append(((*content, kind), free - pages[kind]))


def walk_value(instance: Instance, pricing: WalkPricing) -> Fraction:
    """Seconds that every schedule of ``instance`` takes, by ``pricing``.

    Raises
    ------
    RefutedError
        The numbers do not prove anything for this instance.
    """
    small_stages = [len(own) for own in pricing.small]
    stages = [len(own) + less for own, less in zip(pricing.followed, small_stages, strict=True)]
    hold(
        stages == [output for _, output, _ in types_of(instance)],
        "prices do not fit the types of requests",
    )
    ground = walk_ground(
        instance, small_stages, pricing.intercept_s, pricing.slope_s, pricing.unit_bits
    )
    first = [price for own in pricing.followed for price in own]
    small = [price for own in pricing.small for price in own]
    pages = [kind.pages for kind in ground.kinds]
    phi: dict[Content, int] = {}
    given = iter(pricing.potentials)
    held = 0
    for content in contents(pages, ground.cap):
        held += 1 + len(content)
        hold(len(phi) < _MOST_CONTENTS, f"more than {_MOST_CONTENTS} contents")
        hold(held <= _MOST_HELD, f"contents of more than {_MOST_HELD} requests in all")
        value = next(given, None)
        hold(value is not None, "a content has no potential")
        assert value is not None
        phi[content] = value
    hold(next(given, None) is None, "there are more potentials than contents")
    reached = _after_a_batch(phi, ground, first)
    best = best_earnings(
        ground.cap, [(own, q) for (own, _), q in zip(ground.small, small, strict=True)]
    )
    for content, value in phi.items():
        free = ground.cap - sum(pages[kind] for kind in content)
        hold(
            value <= reached[content] + ground.batch - best[free],
            "a batch raises the potential by more than it costs",
        )
    earned = sum(kind.requests * u for kind, u in zip(ground.kinds, first, strict=True))
    earned += sum(count * q for (_, count), q in zip(ground.small, small, strict=True))
    earned += min(phi.values()) - phi[()]
    return ground.base_s + Fraction(earned, 2**pricing.unit_bits)


def _after_a_batch(
    phi: dict[Content, int], ground: WalkGround, first: list[int]
) -> dict[Content, int]:
    """Least potential before a batch plus refills minus prices, by the content after it."""
    least = dict(phi)
    by_length: dict[int, list[Content]] = {}
    having: list[dict[int, list[Content]]] = [{} for _ in ground.kinds]
    for content in least:
        by_length.setdefault(len(content), []).append(content)
        for kind in set(content):
            having[kind].setdefault(content.count(kind), []).append(content)
    for length in sorted(by_length, reverse=True):
        for content in by_length[length]:
            for kind in set(content):
                rest = _without(content, kind)
                least[rest] = min(least[rest], least[content])
    for kind in range(len(ground.kinds) - 1, -1, -1):
        if not ground.kinds[kind].moves_on:
            continue
        for number in sorted(having[kind], reverse=True):
            for content in having[kind][number]:
                moved = tuple(sorted((*_without(content, kind), kind + 1)))
                if moved in least:
                    least[moved] = min(least[moved], least[content] - first[kind + 1])
    fill = [own.refill - price for own, price in zip(ground.kinds, first, strict=True)]
    for length in sorted(by_length):
        for content in by_length[length]:
            for kind in set(content):
                filled = least[_without(content, kind)] + fill[kind]
                least[content] = min(least[content], filled)
    return least


def _without(content: Content, kind: int) -> Content:
    place = content.index(kind)
    return content[:place] + content[place + 1 :]
