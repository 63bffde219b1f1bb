"""Constraint families of the network formulation with calls and the program that they make up."""

from __future__ import annotations

from optsched.constraints.calls_network.formulation import FAMILIES, Family, build

__all__ = ["FAMILIES", "Family", "build"]
