"""The only wiring: everything below comes together here."""

from optsched.solve.compare import Candidate, Comparison, assess, compare, evaluate
from optsched.solve.search import SolveOptions
from optsched.solve.solve import solve

__all__ = [
    "Candidate",
    "Comparison",
    "SolveOptions",
    "assess",
    "compare",
    "evaluate",
    "solve",
]
