"""Closed walks over memory contents: what bounds (B4) and schedules share of them."""
