"""The loop of the look-ahead with calls as machine code (:mod:`optsched.compiled`).

The functions are plain Python that numba can compile. For a few requests they run as they are,
since even loading compiled code takes longer; for many, copies that call each other's compiled
versions are built once and kept on disk.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from optsched.compiled import compiled
from optsched.warmstart import calls_chunks, calls_memory, calls_serve, calls_state
from optsched.warmstart.calls_state import State

_MODULES = (calls_chunks, calls_state, calls_memory, calls_serve)
_ALLOCATE = ("serve", "fresh")


@functools.cache
def compiled_serve() -> Callable[..., State]:
    """:func:`~optsched.warmstart.calls_serve.serve` in machine code."""
    scope: dict[str, Any] = {}
    own: list[FunctionType] = []
    for module in _MODULES:
        scope |= vars(module)
        own += [f for f in vars(module).values() if _defined_in(module.__name__, f)]
    # What is kept on disk goes by the name and file of a function, not by what it calls.
    version = _version()
    for function in own:
        name = function.__name__
        copy = FunctionType(function.__code__, scope, name, function.__defaults__)
        copy.__module__, copy.__qualname__ = function.__module__, f"{name}_{version}"
        # Counting references to arrays, needed only where they are made, takes 15 times longer.
        scope[name] = compiled(copy, error_model="numpy", _nrt=name in _ALLOCATE)
    serve: Callable[..., State] = scope["serve"]
    return serve


def _version() -> str:
    sources = (inspect.getsource(part) for part in (*_MODULES, compiled_serve.__wrapped__))
    return hashlib.sha256("".join(sources).encode()).hexdigest()[:12]


def _defined_in(module: str, value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module
