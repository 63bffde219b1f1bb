"""Which priced bounds are tried."""

from __future__ import annotations

import pytest

from optsched.bounds import best
from optsched.io.generate import uniform


@pytest.mark.parametrize(("kv_tokens", "tried"), [(400, True), (40_000, False)])
def test_closed_walks_only_where_memory_holds_few(
    monkeypatch: pytest.MonkeyPatch, kv_tokens: int, tried: bool
) -> None:
    """Of 300 requests of 32 + 4 tokens 400 tokens hold 12 and 40,000 all."""
    calls = []
    monkeypatch.setattr(best, "closed_walk_bound", lambda *_, **__: calls.append(1))
    instance = uniform(300, 32, 4, kv_tokens=kv_tokens)
    best.best_bound(instance, time_limit_s=0.5)
    assert bool(calls) == tried
