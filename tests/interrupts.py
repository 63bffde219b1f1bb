"""Keyboard interrupts at every point of a computation, as Ctrl-C may come at any time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def interrupted(compute: Callable[[], object], call: int) -> bool:
    """Whether ``compute`` makes so many Python calls; a keyboard interrupt comes in that one.

    Raises
    ------
    AssertionError
        The interrupt is lost.
    BaseException
        It comes out as something else.
    """
    made = 0

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"
        if event == "call" and made == call:
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        compute()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    assert made < call, "the interrupt is lost"
    return False


def interrupted_everywhere(compute: Callable[[], object]) -> int:
    """Interrupt ``compute`` in each of its Python calls in turn; returns how many these are."""
    compute()  # what is imported on the first call
    call = 1
    while interrupted(compute, call):
        call += 1
    return call - 1
