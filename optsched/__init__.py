"""How good could an LLM-serving schedule possibly be?

The records are importable from here; everything else from its own module
(``optsched.check``, ``optsched.simulate``, ``optsched.warmstart``, ``optsched.bounds``,
``optsched.solve``).
"""

from optsched.cost import CostModel
from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule
from optsched.trace import Trace

__version__ = "0.1.0"
__all__ = ["Call", "CostModel", "Instance", "Kind", "Limits", "Request", "Schedule", "Trace"]
