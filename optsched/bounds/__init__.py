"""Lower bounds on the makespan that hold for every schedule, each with its proof.

``work`` is B0, ``batch_count`` B1, ``packing`` and ``configuration`` B2, ``piecewise`` and
``phases`` the bounds L1 to L4 for several affine pieces, ``path`` the critical path and
``arrivals`` B5.
"""

from optsched.bounds.batch_count import BatchCount, batch_count
from optsched.bounds.bound import Bound, lower_bound
from optsched.bounds.work import work

__all__ = ["BatchCount", "Bound", "batch_count", "lower_bound", "work"]
