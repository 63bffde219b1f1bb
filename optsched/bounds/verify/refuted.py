"""Why a certificate is refused."""

from __future__ import annotations


class RefutedError(Exception):
    """The argument of a certificate does not hold; says which part."""


def hold(ok: bool, otherwise: str) -> None:
    """Refute with the reason ``otherwise`` unless ``ok``."""
    if not ok:
        raise RefutedError(otherwise)
