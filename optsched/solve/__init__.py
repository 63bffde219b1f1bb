"""The only wiring: everything below comes together here."""

from optsched.solve.candidate import Candidate, assess, evaluate
from optsched.solve.compare import Comparison, compare
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
