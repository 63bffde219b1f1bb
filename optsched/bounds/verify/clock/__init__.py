"""What arguments about latency, TTFT and goodput prove, in exact arithmetic.

``value`` holds the entry point; each other module is one argument, with the proof that it holds for
every schedule.
"""
