"""The six API classes of the INFERCEPT workload, and how a request's id names its class.

Source: the workload of INFERCEPT (Abhyankar et al., ICML 2024), 397 requests of six classes, as
republished by MARS (github.com/mars-repository/mars-codebase, ``merged_exp_uniform.json``,
Apache-2.0). Means and standard deviations per class are those of that file; they agree with the
papers' tables.

Requests of this workload are called ``CLASS-NUMBER``, such as ``math-17``. The class is part of
the id, and no field of its own, because no schedule's cost depends on it: only predictors do.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from optsched.errors import UnknownNameError, require


class Amount(msgspec.Struct, frozen=True):
    """Mean, standard deviation and largest value of a quantity in the workload."""

    mean: float
    std: float
    largest: float


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What is generated before one kind of call, the call's duration and what it returns."""

    output_tokens: Amount
    duration_s: Amount
    response_tokens: Amount


class ApiClass(msgspec.Struct, frozen=True, kw_only=True):
    """One class of requests.

    Parameters
    ----------
    requests : int
        Requests of the class among the 397: its share of the mix.
    prompt_tokens : Amount
        I.
    rounds : Amount
        How often a request goes through ``turns``.
    turns : tuple of Turn
        The calls of one round, in order.
    closing_tokens : Amount or None
        Output after the last call. None: the last call ends the request, so nothing waits for it
        and it is no call; the request ends with the output before it.
    """

    requests: int
    prompt_tokens: Amount
    rounds: Amount
    turns: tuple[Turn, ...]
    closing_tokens: Amount | None = None


# What the published table has as one row over all segments of a class is split here, off the same
# file, into the output before a call and after the last one, and for tts and image into the call
# of the model and the user's answer to it.
_DIALOGUE_PROMPT = Amount(108, 263, 1728)
_DIALOGUE_TEXT = Amount(58.6, 17.3, 121)
_DIALOGUE_TURNS = Amount(3.46, 1.96, 8)
_USER_DURATION_S = Amount(28.2, 18.4, 60)
_USER_TOKENS = Amount(39.7, 112, 1354)
_CAPTION = Amount(7, 0, 7)
_USER_TURN = Turn(output_tokens=_CAPTION, duration_s=_USER_DURATION_S, response_tokens=_USER_TOKENS)

CLASSES: dict[str, ApiClass] = {
    "math": ApiClass(
        requests=98, prompt_tokens=Amount(405, 18, 483), rounds=Amount(2.81, 1.32, 4),
        turns=(
            Turn(
                output_tokens=Amount(130, 90, 518),
                duration_s=Amount(8.3e-5, 4.8e-5, 6.0e-4),
                response_tokens=Amount(21.0, 4.9, 51),
            ),
        ),
        closing_tokens=Amount(111, 225, 1353),
    ),
    "qa": ApiClass(
        requests=50, prompt_tokens=Amount(934, 7, 955), rounds=Amount(3.04, 1.18, 4),
        turns=(
            Turn(
                output_tokens=Amount(189, 120, 714),
                duration_s=Amount(0.709, 0.209, 1.03),
                response_tokens=Amount(56.7, 8.5, 81),
            ),
        ),
        closing_tokens=Amount(166, 178, 910),
    ),
    "ve": ApiClass(
        requests=54, prompt_tokens=Amount(1973, 0, 1973), rounds=Amount(5.35, 1.02, 8),
        turns=(
            Turn(
                output_tokens=Amount(4, 0, 4),
                duration_s=Amount(0.085, 0.015, 0.11),
                response_tokens=Amount(10.2, 10.8, 43),
            ),
        ),
    ),
    "chatbot": ApiClass(
        requests=65, prompt_tokens=_DIALOGUE_PROMPT, rounds=_DIALOGUE_TURNS,
        turns=(
            Turn(
                output_tokens=_DIALOGUE_TEXT,
                duration_s=_USER_DURATION_S,
                response_tokens=_USER_TOKENS,
            ),
        ),
        closing_tokens=Amount(304, 251, 1164),
    ),
    "image": ApiClass(
        requests=65, prompt_tokens=_DIALOGUE_PROMPT, rounds=_DIALOGUE_TURNS,
        turns=(
            Turn(
                output_tokens=_DIALOGUE_TEXT,
                duration_s=Amount(11.54, 0.93, 13.6),
                response_tokens=Amount(8, 0, 8),
            ),
            _USER_TURN,
        ),
    ),
    "tts": ApiClass(
        requests=65, prompt_tokens=_DIALOGUE_PROMPT, rounds=_DIALOGUE_TURNS,
        turns=(
            Turn(
                output_tokens=_DIALOGUE_TEXT,
                duration_s=Amount(6.06, 2.66, 13.0),
                response_tokens=Amount(9, 0, 9),
            ),
            _USER_TURN,
        ),
    ),
}  # fmt: skip


def request_id(api_class: str, number: int) -> str:
    """Id of a request of a class: ``CLASS-NUMBER``."""
    return f"{api_class}-{number}"


def class_of(request_id: str) -> str:
    """The API class that an id names, or an empty string if it names none of the six."""
    name, dash, _ = request_id.rpartition("-")
    return name if dash and name in CLASSES else ""


def chosen_classes(names: Sequence[str] | None) -> tuple[str, ...]:
    """The classes that a workload is confined to: all if ``names`` is None.

    Raises
    ------
    UnknownNameError
        A name is none of the six classes.
    InvalidInputError
        There are no names, or the same one twice.
    """
    if names is None:
        return tuple(CLASSES)
    for name in names:
        if name not in CLASSES:
            raise UnknownNameError("API class", name, CLASSES)
    require(bool(names), "classes", list(names), "at least one class")
    require(len(set(names)) == len(names), "classes", list(names), "every class only once")
    return tuple(name for name in CLASSES if name in names)
