"""How good could an LLM-serving schedule possibly be?

The records are importable from here; everything else from its own module
(``optsched.check``, ``optsched.simulate``, ``optsched.warmstart``, ``optsched.bounds``,
``optsched.solve``).
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing is not imported for its sake: the command line must be up first
if TYPE_CHECKING:
    from optsched.cost import CostModel
    from optsched.instance import Call, Instance, Limits, Request
    from optsched.schedule import Kind, Schedule
    from optsched.trace import Trace

__version__ = "0.1.0"
__all__ = ["Call", "CostModel", "Instance", "Kind", "Limits", "Request", "Schedule", "Trace"]

_MODULES = {
    "Call": "instance", "CostModel": "cost", "Instance": "instance", "Kind": "schedule",
    "Limits": "instance", "Request": "instance", "Schedule": "schedule", "Trace": "trace",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """A record, from its module on first use: numpy takes a while, and Ctrl-C may come in it."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'optsched' has no attribute {name!r}")
    return getattr(import_module(f"optsched.{_MODULES[name]}"), name)
