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

**Groups.** Walks may follow groups of consecutive stages, each one page larger than the one before,
instead of stages: a content is then a multiset of groups and the *offset*, the sum over its
requests of the pages beyond the first stage of their groups. Its memory is exact; who holds the
offset is forgotten. A decode leaves a request in its group, which adds 1 to the offset, or takes it
from the last stage of a group to the first of the next. All stages of a group but its first have
one price, plus g >= 0 for every page beyond the first stage: a batch earns at most g times the
offset after it, where requests that only hold are credited too.

**Micro-steps.** A batch is a chain of unit moves on the content: evictions, then decodes from the
last stage to the first, then fills. (Of a group first those decode that leave it, then as many
stay as it still has requests.) So nothing decodes twice, and as memory only grows after the
evictions every content on the way fits if the last one does. One pass of least values over all
contents therefore covers all batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from optsched.bounds.verify.refuted import hold
from optsched.bounds.walk_ground import WalkGround, types_of, walk_ground
from optsched.instance import Instance
from optsched.walk_pricing import WalkPricing

Content = tuple[int, ...]
Potentials = dict[Content, list[int]]  # by offset
_MOST_CONTENTS = 1_000_000
_MOST_HELD = 10_000_000
_MOST_LOOKS = 100_000_000  # for a kind that fits
_MOST_EARNINGS = 5_000_000


def best_earnings(cap: int, items: Iterable[tuple[int, int]]) -> list[int]:
    """The most that 0 .. ``cap`` free pages earn with any number of each item (pages, price)."""
    kept = [(pages, price) for pages, price in items if price > 0]
    hold((cap + 1) * (len(kept) + 1) <= _MOST_EARNINGS, "free pages are too many to be checked")
    best = [0] * (cap + 1)
    for free in range(1, cap + 1):
        fits = [best[free - pages] + price for pages, price in kept if pages <= free]
        best[free] = max([best[free - 1], *fits])
    return best


def contents(pages: list[int], cap: int) -> Iterator[Content]:
    """All multisets of kinds that fit in ``cap`` pages, as ascending tuples of kind numbers, in
    lexicographic order (the empty one first)."""
    content: list[int] = []
    free, kind, looked = cap, 0, 0
    yield ()
    while True:
        first = kind
        while kind < len(pages) and pages[kind] > free:
            kind += 1
        looked += 1 + kind - first
        hold(looked <= _MOST_LOOKS, "contents are too many to be checked")
        if kind < len(pages):
            content.append(kind)
            free -= pages[kind]
            yield tuple(content)
        elif content:
            kind = content.pop()
            free += pages[kind]
            kind += 1
        else:
            return


@dataclass(frozen=True, kw_only=True)
class _Prices:
    """Prices per kind of the events of its first stage and of each later one, and of a page of
    offset."""

    first: list[int]
    later: list[int]
    growth: int


def walk_value(instance: Instance, pricing: WalkPricing) -> Fraction:
    """Seconds that every schedule of ``instance`` takes, by ``pricing``.

    Raises
    ------
    RefutedError
        The numbers do not prove anything for this instance.
    """
    small_stages = [len(own) for own in pricing.small]
    groups = pricing.groups
    stages = [sum(own) + less for own, less in zip(groups, small_stages, strict=True)]
    hold(
        stages == [output for _, output, _ in types_of(instance)],
        "prices do not fit the types of requests",
    )
    ground = walk_ground(
        instance, small_stages, pricing.intercept_s, pricing.slope_s, pricing.unit_bits, groups
    )
    first = [price for own in pricing.followed for price in own]
    later = [price for own in pricing.later for price in own] or [0] * len(first)
    prices = _Prices(first=first, later=later, growth=pricing.growth)
    small = [price for own in pricing.small for price in own]
    phi = _potentials(ground, pricing.potentials)
    reached = _after_a_batch(phi, ground, prices)
    best = best_earnings(
        ground.cap, [(own, q) for (own, _), q in zip(ground.small, small, strict=True)]
    )
    for content, values in phi.items():
        free = _free(content, ground)
        for offset, (value, least) in enumerate(zip(values, reached[content], strict=True)):
            earned = best[free - offset] + prices.growth * offset
            hold(
                value <= least + ground.batch - earned,
                "a batch raises the potential by more than it costs",
            )
    total = min(min(values) for values in phi.values()) - phi[()][0]
    total += sum(count * q for (_, count), q in zip(ground.small, small, strict=True))
    for kind, own, others in zip(ground.kinds, first, later, strict=True):
        total += kind.requests * own + kind.later_events * others
        total += kind.growth_events * prices.growth
    return ground.base_s + Fraction(total, 2**pricing.unit_bits)


def _free(content: Content, ground: WalkGround) -> int:
    """Pages left free at offset 0."""
    return ground.cap - sum(ground.kinds[kind].pages for kind in content)


def _potentials(ground: WalkGround, potentials: tuple[int, ...]) -> Potentials:
    """The potentials by content and offset; all that fit have one."""
    phi: Potentials = {}
    used = held = 0
    for content in contents([kind.pages for kind in ground.kinds], ground.cap):
        stages = sum(ground.kinds[kind].width for kind in content)
        number = 1 + min(stages - len(content), _free(content, ground))
        held += (1 + stages) * number
        hold(used + number <= _MOST_CONTENTS, f"more than {_MOST_CONTENTS} contents")
        hold(held <= _MOST_HELD, f"contents of more than {_MOST_HELD} stages in all")
        phi[content] = list(potentials[used : used + number])
        hold(len(phi[content]) == number, "a content has no potential")
        used += number
    hold(used == len(potentials), "there are more potentials than contents")
    return phi


def _after_a_batch(phi: Potentials, ground: WalkGround, prices: _Prices) -> Potentials:
    """Least potential before a batch plus refills minus prices, by the content after it."""
    least = {content: list(values) for content, values in phi.items()}
    by_length: dict[int, list[Content]] = {}
    for content in least:
        by_length.setdefault(len(content), []).append(content)
    for length in sorted(by_length, reverse=True):
        for content in by_length[length]:
            _evict(content, least, ground)
    _decode(least, ground, prices)
    fill = [
        [own.refill[0] - price, *(refill - others for refill in own.refill[1:])]
        for own, price, others in zip(ground.kinds, prices.first, prices.later, strict=True)
    ]
    for length in sorted(by_length):
        for content in by_length[length]:
            _fill(content, least, fill)
    return least


def _evict(content: Content, least: Potentials, ground: WalkGround) -> None:
    values = least[content]
    for kind in set(content):
        width, rest = ground.kinds[kind].width, least[_without(content, kind)]
        for offset in range(min(len(rest), len(values))):
            rest[offset] = min(rest[offset], *values[offset : offset + width])


def _decode(least: Potentials, ground: WalkGround, prices: _Prices) -> None:
    having: list[dict[int, list[Content]]] = [{} for _ in ground.kinds]
    for content in least:
        for kind in set(content):
            having[kind].setdefault(content.count(kind), []).append(content)
    for kind in range(len(ground.kinds) - 1, -1, -1):
        left = ground.kinds[kind].width - 1
        if ground.kinds[kind].moves_on:
            for number in sorted(having[kind], reverse=True):
                for content in having[kind][number]:
                    moved = tuple(sorted((*_without(content, kind), kind + 1)))
                    after = least.get(moved, [])
                    pairs = zip(after, least[content][left:], strict=False)
                    after[:] = [
                        *(min(own, value - prices.first[kind + 1]) for own, value in pairs),
                        *after[max(0, len(least[content]) - left) :],
                    ]
        if left:
            for number, some in having[kind].items():
                for content in some:
                    _stay(least[content], number, prices.later[kind])


def _stay(values: list[int], number: int, price: int) -> None:
    """Up to ``number`` requests decode within their group."""
    for _ in range(number):
        values[1:] = [
            min(own, value - price) for own, value in zip(values[1:], values[:-1], strict=True)
        ]


def _fill(content: Content, least: Potentials, fill: list[list[int]]) -> None:
    values = least[content]
    for kind in set(content):
        rest = least[_without(content, kind)]
        for within, cost in enumerate(fill[kind][: len(values)]):
            pairs = enumerate(rest[: len(values) - within], start=within)
            for offset, value in pairs:
                values[offset] = min(values[offset], value + cost)


def _without(content: Content, kind: int) -> Content:
    place = content.index(kind)
    return content[:place] + content[place + 1 :]
