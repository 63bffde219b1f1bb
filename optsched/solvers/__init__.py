"""Back ends: ``solver(name)`` minimises a :class:`~optsched.model.milp.Milp`."""

from optsched.solvers.catalogue import available, solver

__all__ = ["available", "solver"]
