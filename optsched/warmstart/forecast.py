"""Expected final length of a request, from an online histogram of those that finished."""

from __future__ import annotations


class Forecast:
    """Mean final length I + O - 1 of finished requests by bucket floor(log2 I) (InferMax)."""

    def __init__(self) -> None:
        self._count: dict[int, int] = {}
        self._total: dict[int, int] = {}

    def learn(self, prompt: int, final: int) -> None:
        """A request with this prompt finished with ``final`` tokens in KV."""
        bucket = prompt.bit_length()
        self._count[bucket] = self._count.get(bucket, 0) + 1
        self._total[bucket] = self._total.get(bucket, 0) + final

    def expected(self, prompt: int, known: int) -> int:
        """Expected final tokens, rounded up; at least ``known``, and that alone at first."""
        bucket = prompt.bit_length()
        if bucket not in self._count:
            return known
        return max(known, -(-self._total[bucket] // self._count[bucket]))
