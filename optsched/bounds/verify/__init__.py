"""Checks a certificate in exact arithmetic, from the instance and the problem's rules alone.

Everything here is whole numbers and fractions; doubles of the instance are read as the rationals
that they are. Nothing is shared with the bounds in floating point, the formulations or a solver,
so that an error in one shows against the other. ``verdict`` holds the entry point.
"""
