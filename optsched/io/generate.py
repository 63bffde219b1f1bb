"""Seeded workload generators: an Azure-like hour, and the workloads of the InferMax paper."""

from __future__ import annotations

import random

import numpy as np

from optsched.errors import UnknownNameError, require, require_count
from optsched.instance import Instance, Limits, Request
from optsched.io.arrivals import poisson_arrivals, require_rate
from optsched.io.presets import preset

# Percentiles of the Azure conversation trace of 2023 (19,366 requests of one hour, CC-BY-4.0;
# Patel et al., Splitwise, ISCA 2024), read off the released file.
_PERCENT = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.9, 100)
_PROMPT = (
    2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2734, 4083, 4098, 4142, 6179, 14050,
)  # fmt: skip
_OUTPUT = (7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 540, 601, 954, 1000)
AZURE_RATE = 5.53  # requests per second over the hour
_MOST_REQUESTS = 10**7

SHORT, LONG = (8, 16), (512, 1024)
GROUPS = {
    "SISO": (SHORT, SHORT), "SILO": (SHORT, LONG), "LISO": (LONG, SHORT), "LILO": (LONG, LONG),
}  # fmt: skip


def azure_like(
    requests: int = 1000,
    *,
    seed: int = 0,
    rate: float = AZURE_RATE,
    preset_name: str = "llama3-70b-4xa100",
    kv_tokens: int | None = None,
) -> Instance:
    """Requests like those of the Azure conversation hour.

    Prompt and output lengths are drawn independently from the trace's marginal distributions
    (linear between its percentiles; their rank correlation in the trace is 0.07), arrivals are a
    Poisson process of ``rate`` per second (the trace's inter-arrival times have a coefficient of
    variation of 1.09). A rate of 0 lets all arrive at once.

    Raises
    ------
    InvalidInputError
        ``requests`` is not in 1 .. 10^7, ``rate`` not 0 nor above 1e-6, or ``seed`` negative.
    """
    require_count("requests", requests, 1, _MOST_REQUESTS)
    require_rate(rate)
    require(seed >= 0, "seed", seed, "a whole number >= 0")
    machine = preset(preset_name)
    rng = np.random.default_rng(seed)
    prompts = np.interp(100 * rng.random(requests), _PERCENT, _PROMPT).round().astype(int)
    outputs = np.interp(100 * rng.random(requests), _PERCENT, _OUTPUT).round().astype(int)
    arrivals = poisson_arrivals(rng, requests, rate)
    return Instance(
        name=f"azure-like-{requests}",
        limits=Limits(kv_tokens=kv_tokens or machine.kv_tokens, batch_tokens=machine.batch_tokens),
        cost=machine.cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=p, output_tokens=o, arrival_s=t)
            for i, (p, o, t) in enumerate(
                zip(prompts.tolist(), outputs.tolist(), arrivals.tolist(), strict=True)
            )
        ),
    )


def uniform(
    requests: int,
    prompt_tokens: int,
    output_tokens: int,
    *,
    kv_tokens: int | None = None,
    preset_name: str = "study",
) -> Instance:
    """``requests`` equal requests, offline (InferMax, sections 4 and 5.1).

    Without ``kv_tokens`` M is max(2 I, I + O - 1), as in the paper's section 5.1.
    """
    require_count("requests", requests, 1, _MOST_REQUESTS)
    machine = preset(preset_name)
    capacity = kv_tokens or max(2 * prompt_tokens, prompt_tokens + output_tokens - 1)
    return Instance(
        name=f"B{requests}-I{prompt_tokens}-O{output_tokens}-M{capacity}",
        limits=Limits(kv_tokens=capacity, batch_tokens=machine.batch_tokens),
        cost=machine.cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt_tokens, output_tokens=output_tokens)
            for i in range(requests)
        ),
    )


def mix(
    requests: int,
    groups: str,
    *,
    seed: int = 0,
    kv_tokens: int | None = None,
    preset_name: str = "study",
) -> Instance:
    """Half of the requests from each of two groups such as ``SISO+LILO``, offline, shuffled.

    A group draws I and O uniformly from S = {8, 16} or L = {512, 1024} (InferMax, section 4.6).
    """
    require_count("requests", requests, 1, _MOST_REQUESTS)
    parts = groups.split("+")
    require(len(parts) == 2, "groups", groups, "two group names joined by +, such as SISO+LILO")
    for name in parts:
        if name not in GROUPS:
            raise UnknownNameError("group", name, GROUPS)
    machine = preset(preset_name)
    rng = random.Random(seed)
    lengths = []
    for i in range(requests):
        prompts, outputs = GROUPS[parts[2 * i // requests]]
        lengths.append((rng.choice(prompts), rng.choice(outputs)))
    rng.shuffle(lengths)
    return Instance(
        name=f"{groups}-{requests}",
        limits=Limits(kv_tokens=kv_tokens or machine.kv_tokens, batch_tokens=machine.batch_tokens),
        cost=machine.cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output)
            for i, (prompt, output) in enumerate(lengths)
        ),
    )
