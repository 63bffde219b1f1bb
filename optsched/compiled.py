"""Inner loops compiled to machine code.

Searches over small integer states spend their time in loops that numpy cannot express. They are
compiled by numba: a plain dependency with wheels for every platform, so that an install needs no
compiler, which a C or Rust extension would on any platform without a wheel of ours.

How such loops are written here:

- They are functions of a module of their own that holds nothing else (``..._kernel.py``), decorated
  with :func:`compiled`. That module is imported inside the function that needs it, so nobody else
  pays for the import of numba.
- They work on arrays of integers that the caller allocates, bundled in named tuples, and never
  allocate by the size of the problem: how much memory a search takes is decided in Python, and an
  array that is full is something that they return.
- They return after a given amount of work and are called again from where they stopped, because
  Ctrl-C, deadlines and progress are only seen between calls.
- What is compared exactly is integers: prices are scaled, with a common unit.

Compiled code is kept in ``__pycache__``, or in the user's cache folder where that cannot be
written; where neither can, it is compiled once per process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """``function``, compiled when it is first called with arguments of these types.

    ``options`` are those of ``numba.njit``.
    """
    import numba

    try:
        found: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        found = numba.njit(**options)(function)
    return found
