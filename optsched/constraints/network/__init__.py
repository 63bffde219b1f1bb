"""Constraint families of the network formulation and the program that they make up."""

from __future__ import annotations

from optsched.constraints.network.formulation import FAMILIES, Family, build
from optsched.constraints.network.horizon import most_used
from optsched.constraints.network.hull import Hull

__all__ = ["FAMILIES", "Family", "Hull", "build", "most_used"]
