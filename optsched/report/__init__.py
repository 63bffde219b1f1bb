"""Numbers about results: where a gap comes from, and what each eviction cost."""

from optsched.report.evictions import EvictionCost, eviction_costs
from optsched.report.gap import GapTerm, explain_gap

__all__ = ["EvictionCost", "GapTerm", "eviction_costs", "explain_gap"]
