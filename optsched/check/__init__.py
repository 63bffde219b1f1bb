"""The checker: every violation of the feasibility rules, and of policies, by a schedule.

It shares nothing with the formulations, the simulator or the cost model. It plays the runs of all
requests at once (``lifecycle``), sums what they do per batch (``sums``), and compares with the
limits (``batches``), the times of a trace (``times``) and the policies (``policies``).

Conventions
-----------
``docs/problem.md`` says what is a violation. These say how it is reported, and how things go on
after it, so that one mistake is one violation wherever that makes sense.

What a rule forbids is not done, or done as far as possible, and counts nowhere else:

- The runs of a request are played by first batch, then kind (swap in, process, evict, swap out).
  A run loses the batches that it shares with an earlier one, unless that is a swap in and this
  one processes: one ``residency`` violation per run, excess = batches shared.
- Evict, swap out or swap in without the KV it needs: ``residency``, excess 1, no effect (but it
  takes its batch). Processing while KV is on the host: ``residency``, excess = tokens on the host,
  which count as swapped in there.
- A run of a request that does not exist does nothing: ``progress`` if it processes, else
  ``residency``, request None, excess = its tokens, at least 1. A process run of no token does
  nothing: ``progress``, excess 1.
- A step of more tokens than are left processes what is left: ``progress``, once per run, in the
  first batch concerned, excess = tokens too many in it.
- Steps after the request finished process nothing: ``completion``, once per run, in the first
  batch concerned, excess = number of such batches. A request that does not finish:
  ``completion``, batch None, excess = output tokens missing.

Batches that process no token: ``progress``, request None, once per stretch of consecutive ones,
excess = their number. Where nothing is done at all, capacities are not checked again. They are
checked in every other batch, one violation each, request None. ``prefill_tokens`` is checked if
the instance gives it; the default C is what ``batch_tokens`` checks.

On a trace ``arrival`` is checked in the request's first batch with processing, ``pause`` in the
first one after the call; in later ones it follows from ``clock``: the trace has the schedule's
number of batches (batch None, excess = the difference), none ends before it starts, starts before
the one before it ended, or before its ``not_before_s``. Times may differ by 1e-9 of the largest
one, at least 1e-9 s; the excess is in seconds.

Policies: ``no-evict``, one per eviction, excess = tokens lost; ``no-chunk``, one per fill, in its
first batch, excess = tokens left after that; ``no-hybrid``, one per batch, excess = the smaller
number of its prefill and of its decode steps; ``no-hold``, one per stretch of consecutive batches
in which a request with KV on the GPU does nothing, excess = their number. For ``no-hold`` a
request pauses from a call with D > 0 until it is next processed or, on a trace, until the first
batch that starts when the call has returned. ``no-swap``, one per swap in either direction, excess
= tokens copied. ``fcfs``, one per request whose first token comes in an earlier batch than that of
a request which arrived before it, in that batch, excess = batches until the last such token; one
that is never generated counts as coming after the last batch. ``nonpreemptive``, one per fill that
is split, as for ``no-chunk``, and one per stretch of consecutive batches that do not process a
request which has begun, has not finished and is not paused, excess = their number. ``preserve``,
``discard`` and ``swap`` (alone for all requests, with ``:ID`` for one), one per call that is
handled otherwise with a batch in between, in the batch that resumes the request, excess = 1.
"""

from __future__ import annotations

from optsched.check.handlings import handlings
from optsched.check.verdict import check, require_valid
from optsched.check.violation import POLICIES, RULES, Violation

__all__ = ["POLICIES", "RULES", "Violation", "check", "handlings", "require_valid"]
