"""What all tests need."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that; the tests of
    Ctrl-C need Python's handler here and the default in the processes that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
