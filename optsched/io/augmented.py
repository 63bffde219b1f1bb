"""A seeded workload like INFERCEPT's: requests of six API classes, with calls."""

from __future__ import annotations

import math

import numpy as np

from optsched.errors import require, require_count
from optsched.instance import Call, FloatArray, Instance, Limits, Request
from optsched.io.api_classes import CLASSES, Amount, ApiClass, Turn, chosen_classes, request_id
from optsched.io.arrivals import poisson_arrivals
from optsched.io.presets import preset

_MOST_REQUESTS = 10**6


def augmented(
    requests: int = 397,
    *,
    rate: float,
    seed: int = 0,
    classes: tuple[str, ...] | None = None,
    preset_name: str = "llama2-7b-a100",
    kv_tokens: int | None = None,
    host_kv_tokens: int = 0,
) -> Instance:
    """Requests with calls like those of the INFERCEPT workload, in any number.

    Classes are drawn with their shares in :data:`optsched.io.api_classes.CLASSES`, which has the
    published figures per class and their source (INFERCEPT, Abhyankar et al., ICML 2024; the file
    as republished by MARS). Within a class every quantity is drawn independently, with the mean
    and standard deviation of the table: lengths in tokens log-normal and at most the largest of
    the file; call counts and durations, whose largest value is near, beta-distributed between
    their least and largest. What the table does not tell is not imitated: lengths that go
    together, failed calls of duration 0, equal durations within a ``ve`` request. Arrivals are a
    Poisson process.

    Parameters
    ----------
    rate : float
        Requests per second; 0 lets all arrive at once.
    classes : tuple of str, optional
        Only these classes, in their relative shares; all six if not given.
    kv_tokens, host_kv_tokens : int
        M (default: the preset's) and host memory for swapped KV.

    Returns
    -------
    Instance
        Its requests are called ``CLASS-NUMBER``, numbered in order of arrival.

    Raises
    ------
    InvalidInputError
        ``requests`` is not in 1 .. 10^6, ``rate`` not 0 nor above 1e-6, or ``seed`` negative.
    UnknownNameError
        A class or the preset does not exist.
    """
    require_count("requests", requests, 1, _MOST_REQUESTS)
    require(seed >= 0, "seed", seed, "a whole number >= 0")
    chosen = chosen_classes(classes)
    machine = preset(preset_name)
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(rng, requests, rate).tolist()
    shares = np.array([CLASSES[name].requests for name in chosen], dtype=np.float64)
    names = [chosen[k] for k in rng.choice(len(chosen), requests, p=shares / shares.sum())]
    return Instance(
        name=f"augmented-{requests}",
        limits=Limits(
            kv_tokens=kv_tokens or machine.kv_tokens,
            batch_tokens=machine.batch_tokens,
            host_kv_tokens=host_kv_tokens,
        ),
        cost=machine.cost,
        requests=tuple(
            _request(rng, request_id(name, i), CLASSES[name], arrival_s)
            for i, (name, arrival_s) in enumerate(zip(names, arrivals, strict=True))
        ),
    )


def _request(rng: np.random.Generator, name: str, api_class: ApiClass, arrival_s: float) -> Request:
    [prompt] = _lengths(rng, api_class.prompt_tokens, 1, least=1)
    rounds = round(float(_bounded(rng, api_class.rounds, 1, least=1)[0]))
    drawn = [_turns(rng, turn, rounds) for turn in api_class.turns]
    turns = [turn for of_round in zip(*drawn, strict=True) for turn in of_round]
    if api_class.closing_tokens is None:
        closing = turns.pop()[0]
    else:
        [closing] = _lengths(rng, api_class.closing_tokens, 1, least=1)
    calls = []
    generated = 0
    for output, duration_s, response in turns:
        generated += output
        calls.append(Call(after_tokens=generated, duration_s=duration_s, response_tokens=response))
    return Request(
        id=name, prompt_tokens=prompt, output_tokens=generated + closing, arrival_s=arrival_s,
        calls=tuple(calls),
    )  # fmt: skip


def _turns(rng: np.random.Generator, turn: Turn, rounds: int) -> list[tuple[int, float, int]]:
    """Output before the call, duration and response of ``rounds`` calls of one kind."""
    outputs = _lengths(rng, turn.output_tokens, rounds, least=1)
    durations_s = _bounded(rng, turn.duration_s, rounds, least=0).tolist()
    responses = _lengths(rng, turn.response_tokens, rounds, least=0)
    return list(zip(outputs, durations_s, responses, strict=True))


def _lengths(rng: np.random.Generator, amount: Amount, size: int, least: int) -> list[int]:
    """Log-normal whole numbers of the given mean and deviation, within least .. largest."""
    variance = math.log1p((amount.std / amount.mean) ** 2)
    drawn = rng.lognormal(math.log(amount.mean) - variance / 2, math.sqrt(variance), size)
    whole: list[int] = np.clip(drawn.round(), least, amount.largest).astype(int).tolist()
    return whole


def _bounded(rng: np.random.Generator, amount: Amount, size: int, least: float) -> FloatArray:
    """Beta-distributed numbers of the given mean and deviation, between least and largest."""
    span = amount.largest - least
    mean = (amount.mean - least) / span
    weight = mean * (1 - mean) / (amount.std / span) ** 2 - 1  # a + b of the beta distribution
    drawn: FloatArray = least + span * rng.beta(mean * weight, (1 - mean) * weight, size)
    return drawn
