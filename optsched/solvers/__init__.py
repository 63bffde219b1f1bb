"""Back ends: ``solver(name)`` minimises a :class:`~optsched.model.milp.Milp`."""

from optsched.solvers.catalogue import available, require_solver, solver

__all__ = ["available", "require_solver", "solver"]
