"""Lower bounds on the makespan that hold for every schedule, each with its proof.

``work`` is B0, ``batch_count`` B1, ``packing`` and ``configuration`` B2, ``piecewise`` and
``phases`` the bounds L1 to L4 for several affine pieces, ``path`` the critical path, ``arrivals``
B5, ``lagrangian`` B3; ``best`` takes the best of them; ``certificate`` writes down its proof, which
``verify`` checks in exact arithmetic.
"""

from optsched.bounds.batch_count import BatchCount, batch_count
from optsched.bounds.best import EFFORTS, BestBound, best_bound, certificate_of
from optsched.bounds.bound import Bound, lower_bound
from optsched.bounds.work import work

__all__ = [
    "EFFORTS",
    "BatchCount",
    "BestBound",
    "Bound",
    "batch_count",
    "best_bound",
    "certificate_of",
    "lower_bound",
    "work",
]
