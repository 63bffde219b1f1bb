"""Schedulers: Instance -> Schedule, every one by its rule, from one loop."""

from optsched.warmstart.protocol import Scheduler
from optsched.warmstart.registry import describe, notes, scheduler, schedulers

__all__ = ["Scheduler", "describe", "notes", "scheduler", "schedulers"]
