"""Label setting: an exact search over unchunked schedules of few requests."""

from optsched.labels.search import Found, search

__all__ = ["Found", "search"]
