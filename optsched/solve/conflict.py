"""Why a target cannot be reached: which rules and requests conflict with it, and by how much.

A deletion filter: rules and requests are left out one after another as long as the target is still
proven out of reach; what remains cannot be left out, so it is an irreducible conflict. What is
only not settled in time is kept, so the conflict is proven though perhaps not as small as it could
be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from optsched.errors import UnsupportedError
from optsched.instance import Instance, Limits
from optsched.objective import Objective
from optsched.result import Conflict, Result
from optsched.solve.search import SolveOptions

Ask = Callable[[Instance, SolveOptions], Result]

_MOST_REQUESTS = 64  # of more, requests are not told apart: each takes a solve
_SHARE = 0.2  # of the time left, for one question
_LEAST_S = 0.5
_FACTOR_STEPS = 8
_MOST_FACTOR = 2.0**20
_CLOSE = 1.01  # of the smallest factor
_MEANS = (Objective.MEAN_LATENCY, Objective.MEAN_TTFT)


def explain_refusal(
    instance: Instance, options: SolveOptions, refused: Result, ask: Ask, *,
    time_limit_s: float, report: Callable[[str], None] = lambda _: None,
) -> Conflict:  # fmt: skip
    """Why ``refused``, whose target is proven unreachable, is so.

    Parameters
    ----------
    ask : callable
        Solves an instance under options that have a target.
    time_limit_s : float
        For all questions together.
    """
    filter_ = _Filter(instance, options, ask, time.monotonic() + time_limit_s, report)
    rules = filter_.without_needless(_rules(instance, options), _without_rules)
    requests: tuple[str, ...] = ()
    if len(instance) <= _MOST_REQUESTS:
        pick = _slos_of if options.objective.maximised else _requests_of
        asked = [r.id for r in instance.requests if _counts(r.id, instance, options)]
        requests = filter_.without_needless(asked, pick)
    relaxed = filter_.relaxed_target(instance, replace(options, target=None), refused.bound)
    factor = None
    if options.objective.maximised and requests:
        factor = filter_.slo_factor(*_slos_of(instance, options, requests))
    return Conflict(
        rules=rules, requests=requests, slo_factor=factor, relaxed_target=relaxed,
        irreducible=filter_.settled and len(instance) <= _MOST_REQUESTS,
    )  # fmt: skip


def _counts(request_id: str, instance: Instance, options: SolveOptions) -> bool:
    if not options.objective.maximised:
        return True
    request = next(r for r in instance.requests if r.id == request_id)
    given = (request.ttft_slo_s, request.tpot_slo_s, request.latency_slo_s)
    return request.weight > 0 and any(slo is not None for slo in given)


Apply = Callable[[Instance, SolveOptions, Sequence[str]], tuple[Instance, SolveOptions] | None]


class _Filter:
    """Leaves out what a refusal does not need, one after another."""

    def __init__(
        self, instance: Instance, options: SolveOptions, ask: Ask, deadline: float,
        report: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.instance, self.options, self.ask = instance, options, ask
        self.deadline, self.report = deadline, report
        self.settled, self.interrupted = True, False

    @property
    def share_s(self) -> float:
        """Seconds for the next question."""
        return max(_SHARE * (self.deadline - time.monotonic()), _LEAST_S)

    def refused(self, what: str, instance: Instance, options: SolveOptions) -> bool | None:
        """Whether the target is proven unreachable; None if that is not settled in time."""
        if self.deadline <= time.monotonic():
            return None
        answer = self._ask(what, instance, options)
        if answer is None or answer.target is None:
            return None
        return {"yes": False, "no": True}.get(answer.target.answer)

    def relaxed_target(
        self, instance: Instance, options: SolveOptions, bound: float | None
    ) -> float | None:
        """The best bound known, ``bound`` at least; None if there is no schedule at all."""
        best = None if self.interrupted else self._ask("what can be reached?", instance, options)
        if best is not None and best.termination == "infeasible":
            return None
        bounds = [b for b in (bound, best.bound if best else None) if b is not None]
        return (min if options.objective.maximised else max)(bounds, default=None)

    def _ask(self, what: str, instance: Instance, options: SolveOptions) -> Result | None:
        """None if it was interrupted, or needs one of the rules that were left out."""
        limited = replace(
            options, time_limit_s=self.share_s, certificate=None, write_model=None,
            then=None, warm_start="best",
        )  # fmt: skip
        try:
            self.report(what)
            answer = self.ask(instance, limited)
        except UnsupportedError:
            return None
        except KeyboardInterrupt:
            answer = None
        if answer is None or answer.interrupted:
            self.interrupted, self.deadline = True, time.monotonic()
        return answer

    def without_needless(self, names: Sequence[str], apply: Apply) -> tuple[str, ...]:
        """Those of ``names`` that the refusal needs; the others stay left out from here on."""
        kept = list(names)
        for name in names:
            rest = [other for other in kept if other != name]
            changed = apply(self.instance, self.options, rest)
            if changed is None:
                continue
            still = self.refused(f"is {name} needed?", *changed)
            self.settled &= still is not None
            if still:
                kept = rest
        final = apply(self.instance, self.options, kept)
        if final is not None:
            self.instance, self.options = final
        return tuple(kept)

    def slo_factor(self, instance: Instance, options: SolveOptions) -> float | None:
        """Least factor on all SLOs of ``instance`` with which the target is reached."""

        def met(factor: float) -> bool | None:
            what = f"SLOs {factor:.4g} times as long"
            refused = self.refused(what, _longer_slos(instance, factor), options)
            return None if refused is None else not refused

        low, high = 1.0, 2.0
        while met(high) is False:
            low, high = high, 2 * high
            if high > _MOST_FACTOR:
                return None
        if met(high) is not True:
            return None
        for _ in range(_FACTOR_STEPS):
            if high <= low * _CLOSE:
                break
            middle = (low * high) ** 0.5
            reached = met(middle)
            if reached is None:
                break  # out of time: this far it is known
            low, high = (low, middle) if reached else (middle, high)
        return high


def _rules(instance: Instance, options: SolveOptions) -> list[str]:
    """Names of the policies, limited objectives and limits in force; the rules of
    ``docs/problem.md``."""
    limits = instance.limits
    names = [*options.policies, *(other.value for other in options.subject_to)]
    if limits.batch_requests is not None:
        names.append("batch_requests")
    if limits.prefill_tokens is not None:
        names.append("prefill_tokens")
    names += ["batch_tokens", "kv_capacity"]
    if options.objective is Objective.MAKESPAN and not instance.offline:
        names.append("arrival")
    return names


def _without_rules(
    instance: Instance, options: SolveOptions, kept: Sequence[str]
) -> tuple[Instance, SolveOptions]:
    limits = instance.limits
    pages = sum(limits.pages(request.final_tokens) for request in instance.requests)
    tokens = sum(request.final_tokens for request in instance.requests)
    prefill = limits.prefill_tokens if "prefill_tokens" in kept else None
    relaxed = Limits(
        kv_tokens=limits.kv_tokens if "kv_capacity" in kept else max(pages, limits.kv_tokens),
        batch_tokens=(
            limits.batch_tokens if "batch_tokens" in kept else max(tokens, limits.batch_tokens)
        ),
        prefill_tokens=prefill,
        batch_requests=limits.batch_requests if "batch_requests" in kept else None,
        block_tokens=limits.block_tokens, host_kv_tokens=limits.host_kv_tokens,
    )  # fmt: skip
    requests = instance.requests
    if options.objective is Objective.MAKESPAN and "arrival" not in kept:
        requests = tuple(msgspec.structs.replace(r, arrival_s=0.0) for r in requests)
    changed = Instance(name=instance.name, limits=relaxed, cost=instance.cost, requests=requests)
    policies = tuple(policy for policy in options.policies if policy in kept)
    subject_to = {o: limit for o, limit in options.subject_to.items() if o.value in kept}
    return changed, replace(options, policies=policies, subject_to=subject_to)


def _requests_of(
    instance: Instance, options: SolveOptions, kept: Sequence[str]
) -> tuple[Instance, SolveOptions] | None:
    """Only the requests ``kept``. A mean is over fewer then, so what its sum may be is kept; those
    left out do no worse than to meet all their SLOs."""
    requests = tuple(request for request in instance.requests if request.id in kept)
    if not requests or options.target is None:
        return None
    share = len(instance) / len(requests)
    left_out = instance.total_weight - sum(r.weight for r in requests)

    def allowed(objective: Objective, limit: float) -> float:
        if objective.maximised:
            return max(0.0, limit - left_out)
        return limit * share if objective in _MEANS else limit

    changed = Instance(
        name=instance.name, limits=instance.limits, cost=instance.cost, requests=requests
    )
    return changed, replace(
        options, target=allowed(options.objective, options.target),
        subject_to={other: allowed(other, limit) for other, limit in options.subject_to.items()},
    )  # fmt: skip


def _slos_of(
    instance: Instance, options: SolveOptions, kept: Sequence[str]
) -> tuple[Instance, SolveOptions]:
    """All requests, but only those ``kept`` have SLOs, and all of these have to be met."""
    requests = tuple(
        request if request.id in kept else msgspec.structs.replace(
            request, ttft_slo_s=None, tpot_slo_s=None, latency_slo_s=None
        )
        for request in instance.requests
    )  # fmt: skip
    return msgspec.structs.replace(instance, requests=requests), options


def _longer_slos(instance: Instance, factor: float) -> Instance:
    def longer(slo_s: float | None) -> float | None:
        return None if slo_s is None else factor * slo_s

    requests = tuple(
        msgspec.structs.replace(
            request, ttft_slo_s=longer(request.ttft_slo_s), tpot_slo_s=longer(request.tpot_slo_s),
            latency_slo_s=longer(request.latency_slo_s),
        )
        for request in instance.requests
    )  # fmt: skip
    return msgspec.structs.replace(instance, requests=requests)
