"""Parts of the bounds on objectives of the clock: against enumeration, and worked by hand."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from optsched.bounds import best_bound
from optsched.bounds.clock import clock_bound, grouped, ordered
from optsched.bounds.clock.splitting import Program, solve
from optsched.bounds.clock.windows import heaviest
from optsched.bounds.verify.clock.equal_paths import Paths, cheapest
from optsched.bounds.verify.clock.goodput import least_price
from optsched.bounds.verify.clock.grouped import least_sum
from optsched.bounds.verify.clock.ordered import shortest_first
from optsched.bounds.verify.clock.uniform import convex_below
from optsched.clock_certificate import PricedWork, Shares
from optsched.cost import CostModel
from optsched.errors import InvalidInputError
from optsched.instance import Instance, Limits, Request
from optsched.io.presets import preset
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from optsched.warmstart import scheduler
from tests.bounds.test_azure import trace

UNIT = CostModel(pieces=((1.0, 0.0),))


def equal(prompt: int, output: int, count: int, kv_tokens: int) -> Instance:
    """Equal requests under the paper's coefficients."""
    return Instance(
        name="equal", limits=Limits(kv_tokens=kv_tokens, batch_tokens=4096),
        cost=preset("study").cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output) for i in range(count)
        ),
    )  # fmt: skip


def test_a_shorter_job_interrupts_a_longer_one() -> None:
    assert shortest_first([0, 1, 10], [5, 1, 2]) == [2, 6, 12]
    assert ordered.shortest_first([0.0, 1.0, 10.0], [5.0, 1.0, 2.0]) == [2, 6, 12]


@pytest.mark.parametrize("seed", range(20))
def test_shortest_first_in_whole_numbers_and_in_doubles(seed: int) -> None:
    rng = random.Random(seed)
    releases = sorted(rng.randint(0, 20) for _ in range(12))
    work = [rng.randint(0, 6) for _ in releases]
    found = ordered.shortest_first([float(r) for r in releases], [float(w) for w in work])
    assert shortest_first(releases, work) == found == sorted(found)


@pytest.mark.parametrize("seed", range(30))
def test_groups_against_all_ways_to_cut(seed: int) -> None:
    rng = random.Random(seed)
    charges, setup = [rng.randint(0, 9) for _ in range(rng.randint(1, 7))], rng.randint(0, 12)
    count, jobs = len(charges), sorted(charges)
    sums = []
    for cuts in itertools.product([False, True], repeat=count - 1):
        now, total, group = 0, 0, []
        for job, last in zip(jobs, (*cuts, True), strict=True):
            group.append(job)
            if last:
                now += setup + sum(group)
                total += now * len(group)
                group = []
        sums.append(total)
    assert least_sum(charges, setup) == min(sums)
    assert grouped.least_sum(np.array(charges, dtype=float), setup) == pytest.approx(min(sums))


@pytest.mark.parametrize("seed", range(20))
def test_a_convex_sequence_below_and_the_form_that_it_makes(seed: int) -> None:
    rng = random.Random(seed)
    steps = [rng.randint(0, 50) for _ in range(9)]
    values = list(itertools.accumulate(steps, initial=0))
    below = convex_below(values)
    assert all(low <= high for low, high in zip(below, values, strict=True))
    assert np.all(np.diff(below, 2) >= 0)
    assert below[0] == 0
    if steps == sorted(steps):
        assert list(below) == values
    apart = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    form = below[np.maximum(0, 9 - apart)].astype(float) + float(below[-1])
    assert np.linalg.eigvalsh(form).min() >= -1e-9 * form.max()


@pytest.mark.parametrize("seed", range(25))
def test_paths_of_equal_requests_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    output, chunks, batches, prompt = rng.randint(1, 4), rng.randint(1, 2), 7, rng.randint(1, 3)

    def draw(most: int, size: int) -> np.ndarray:
        return np.array([rng.randint(0, most) for _ in range(size)], dtype=object)

    paths = Paths(
        fewest=chunks + output - 1, output=output, ends=draw(30, batches),
        prices=(draw(5, batches), draw(3, batches), draw(3, batches)), refills=draw(4, output),
        waiting=np.array([rng.randint(1, 3) for _ in range(batches)]),
        pages=np.array(range(prompt, prompt + output), dtype=object), prompt=prompt,
        refill_tokens=rng.random() < 0.7,
    )  # fmt: skip
    memory, tokens, prefill = paths.prices
    fill = list(itertools.accumulate(tokens + prefill, min))
    least = []
    for at in itertools.combinations(range(chunks - 1, batches), output):
        price = prompt * fill[at[0]] + memory[at[0]] * paths.pages[0] + paths.ends[at[-1]]
        for k in range(1, output):
            stayed = sum(memory[at[k - 1] + 1 : at[k]]) * paths.pages[k - 1]
            again = paths.refills[k] * paths.waiting[at[k]]
            again += (prompt + k - 1) * fill[at[k]] * paths.refill_tokens
            price += min(stayed, again) + memory[at[k]] * paths.pages[k] + tokens[at[k]]
        least.append(price)
    assert cheapest(paths) == min(least) <= paths.largest


@pytest.mark.parametrize("seed", range(10))
def test_the_heaviest_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times, load = np.sort(rng.uniform(0, 9, 8)), rng.uniform(0, 2, 8)
    since, until, value = heaviest(times, load)

    def excess(a: int, b: int) -> float:
        return float(load[a : b + 1].sum() - (times[b] - times[a]))

    assert value == pytest.approx(excess(since, until))
    assert value == pytest.approx(max(excess(a, b) for a in range(8) for b in range(a, 8)))


def test_a_quadratic_program() -> None:
    # x^2 + y^2 - 4 x with x + y = 1 and x <= 0.75: x = 0.75, y = 0.25.
    program = Program(
        linear=np.array([-4.0, 0.0]), square=2 * np.eye(2),
        rows=np.array([[1.0, 1.0], [1.0, 0.0]]), low=np.array([1.0, -np.inf]),
        high=np.array([1.0, 0.75]),
    )  # fmt: skip
    point, prices = solve(program, penalty=0.1, steps=5000, accuracy=1e-9)
    assert point == pytest.approx([0.75, 0.25], abs=1e-6)
    assert prices == pytest.approx([-0.5, 3.0], abs=1e-5)  # 2 x - 4 + p + q = 0 = 2 y + p


def test_the_least_price_of_a_span() -> None:
    edges = [Fraction(t) for t in (1, 2, 4, 5)]

    def least(since: float, until: float | None) -> int:
        end = None if until is None else Fraction(until)
        return least_price((7, 3, 9), edges, (Fraction(since), end))

    assert [least(1, 2), least(1.5, 2.5), least(4, 5), least(2, 4)] == [7, 3, 9, 3]
    assert [least(0.5, 2), least(4, 5.5), least(1, None)] == [0, 0, 0]


def test_requests_that_miss_their_objectives_even_alone_do_not_count() -> None:
    limits = Limits(kv_tokens=100, batch_tokens=100)
    requests = (
        Request(id="late", prompt_tokens=1, output_tokens=1, ttft_slo_s=0.9, weight=4.0),
        Request(id="slow", prompt_tokens=1, output_tokens=3, tpot_slo_s=0.9, weight=2.0),
        Request(id="long", prompt_tokens=1, output_tokens=3, latency_slo_s=2.9),
        Request(id="just", prompt_tokens=1, output_tokens=3, latency_slo_s=3.0, weight=0.5),
    )
    instance = Instance(name="four", limits=limits, cost=UNIT, requests=requests)
    assert clock_bound(instance, Objective.GOODPUT).value == 0.5


def test_requests_that_do_not_fit_before_their_deadlines_do_not_all_count() -> None:
    # A batch holds two pages, so the events of each request, of 1 and 2 pages, take 1.5 batches.
    limits = Limits(kv_tokens=2, batch_tokens=100)
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=1, output_tokens=2, latency_slo_s=2.0) for i in range(2)
    )
    instance = Instance(name="two", limits=limits, cost=UNIT, requests=requests)
    assert clock_bound(instance, Objective.GOODPUT).value == pytest.approx(2 / 1.5, rel=1e-6)


def test_offline_the_largest_latency_is_the_makespan() -> None:
    instance = equal(4, 6, 8, 40)
    assert clock_bound(instance, Objective.MAX_LATENCY).value == pytest.approx(
        best_bound(instance).bound.value_s, rel=1e-9
    )


@pytest.mark.parametrize(("prompt", "output"), [(1, 64), (32, 64)])
def test_equal_requests_are_bounded_closely(prompt: int, output: int) -> None:
    instance = equal(prompt, output, 128, 1600)
    schedule = scheduler("staggered")(instance)
    value = objective_value(instance, simulate(instance, schedule), Objective.MEAN_LATENCY)
    bound = clock_bound(instance, Objective.MEAN_LATENCY, effort="quick")
    own = bound.parts["B8 equal requests"]
    assert own >= 1.02 * bound.parts["B6 k-th times"]
    assert bound.value <= value <= 1.25 * own


def test_the_azure_hour_at_a_load_of_about_one() -> None:
    arrived = trace()
    stretch = 7002 / max(second for _, _, second in arrived)
    requests = tuple(
        Request(id=str(k), prompt_tokens=p, output_tokens=o, arrival_s=second * stretch)
        for k, (p, o, second) in enumerate(arrived)
    )
    instance = Instance(
        name="azure", limits=Limits(kv_tokens=100_000, batch_tokens=16_384),
        cost=preset("llama3-70b-4xa100").cost, requests=requests,
    )  # fmt: skip
    bound = clock_bound(instance, Objective.MEAN_TTFT, effort="quick")
    assert bound.value == pytest.approx(1.487, abs=0.002)


def test_records_refuse_what_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match="at least one part"):
        Shares()
    with pytest.raises(InvalidInputError, match=r"shares\.memory"):
        Shares(memory=-1)
    with pytest.raises(msgspec.ValidationError, match="numbers >= 0"):
        msgspec.json.decode(
            b'{"type": "priced-time", "line": {"intercept_s": 1, "slope_s": 0, "knee_tokens": 1},'
            b'"shares": {"memory": 1}, "starts_s": [0], "end_s": 1, "prices": [-1],'
            b'"unit_bits": 3}',
            type=PricedWork,
        )
