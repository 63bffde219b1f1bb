"""What closed walks (B4) know of an instance before any price: stages, their sizes, and the work.

``exact_walks`` says how stages are followed, in groups of one or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from optsched.bounds.verify.counts import prefill_batches
from optsched.bounds.verify.events import pages_of
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.work import MOST_SIZES
from optsched.bounds.verify.workload import Workload
from optsched.certificate import Line
from optsched.instance import Instance


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A group of consecutive stages of a type that walks follow.

    Parameters
    ----------
    pages : int
        Held by a request that is resident at the first of them; one more at every further one.
    requests : int
        Number of events of each that every schedule has.
    refill : tuple of int
        Per stage: what a fill to it costs beyond a decode, in units of 2 ** -bits seconds,
        rounded down.
    moves_on : bool
        Whether the next kind is the same type's next group.
    """

    pages: int
    requests: int
    refill: tuple[int, ...]
    moves_on: bool

    @property
    def width(self) -> int:
        """Number of stages."""
        return len(self.refill)

    @property
    def later_events(self) -> int:
        """Number of events of all stages but the first."""
        return self.requests * (self.width - 1)

    @property
    def growth_events(self) -> int:
        """Sum over all events of the pages beyond those of the first stage."""
        return self.requests * (self.width * (self.width - 1) // 2)


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
    instance: Instance,
    left_out: Sequence[int],
    intercept_s: float,
    slope_s: float,
    unit_bits: int,
    widths: Sequence[Sequence[int]] = (),
) -> WalkGround:
    """Work and kinds of ``instance`` under a line of the batch-time law.

    Parameters
    ----------
    left_out : sequence of int
        Number of small stages per type.
    widths : sequence of sequence of int
        Per type: numbers of stages of its groups; all 1 if not given.

    Raises
    ------
    RefutedError
        The line is not below the law, requests make calls, or groups do not fit the stages.
    """
    hold(not instance.has_calls, "requests that make calls are not covered")
    stages = sum(output for _, output, _ in types_of(instance))
    hold(stages <= MOST_SIZES, f"{stages} stages are too many to be checked one by one")
    limits, cost = instance.limits, instance.cost
    load = Workload(instance.requests, limits, cost)
    units = units_for([*cost_doubles(cost), cost.swap_tok, intercept_s, slope_s], load.cap)
    line = Line(intercept_s=intercept_s, slope_s=slope_s, knee_tokens=limits.batch_tokens)
    law = law_of(cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    steps = steps_of(cost, limits.fill_tokens, units, units.of(slope_s))
    d0_of_page, copied = units.of(cost.d0) // load.cap, 2 * units.of(cost.swap_tok)
    block = limits.block_tokens

    decode = steps.decodes(per_page=d0_of_page, block_tokens=block)

    def delta(size: int) -> int:
        # A refill whose last token is alone ends as the decode that it replaces.
        least = min(steps.fill(size) - decode(size), steps.fill(size - 1))
        if limits.host_kv_tokens:
            least = min(least, copied * (size - 1))
        return (least << unit_bits) // units.per_second

    work, kinds, small = 0, [], []
    gained = 0  # by refills to small stages that are cheaper than the decode
    types = types_of(instance)
    groups = widths or [
        [1] * (stages - less) for (_, stages, _), less in zip(types, left_out, strict=True)
    ]
    hold(len(groups) == len(types), "groups of stages do not fit the types of requests")
    for (prompt, output, count), less, own in zip(types, left_out, groups, strict=True):
        hold(less + sum(own) == output, "groups of stages do not fit the types of requests")
        hold(
            block == 1 or max(own, default=1) == 1,
            "stages are grouped under pages of several tokens",
        )
        work += count * steps.fill(prompt)
        work += count * (decode.total(prompt + output - 1) - decode.total(prompt))
        small += [(pages_of(prompt + stage, block), count) for stage in range(less)]
        gained += count * sum(min(0, delta(prompt + stage)) for stage in range(1, less))
        stage = less
        for width in own:
            refill = [delta(prompt + k) if k else 0 for k in range(stage, stage + width)]
            if stage == less:
                refill[0] = min(0, refill[0])
            pages = pages_of(prompt + stage, block)
            stage += width
            kinds.append(
                Kind(pages=pages, requests=count, refill=tuple(refill), moves_on=stage < output)
            )
    setups = units.of(cost.p0) * prefill_batches(load)
    return WalkGround(
        cap=load.cap, base_s=units.seconds(work + setups) + Fraction(gained, 2**unit_bits),
        batch=(units.of(intercept_s) << unit_bits) // units.per_second, kinds=tuple(kinds),
        small=tuple(small),
    )  # fmt: skip
