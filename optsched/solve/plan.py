"""Which formulations to solve for an instance, in which order, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from optsched.check import POLICIES
from optsched.errors import UnknownNameError
from optsched.handling import handling_of, required_handling
from optsched.instance import Instance
from optsched.model.hindsight import applies
from optsched.model.network import estimated_columns
from optsched.model.scope import (
    Verdict,
    chunking_is_exact,
    chunking_is_pointless,
    relaxation_is_valid,
)
from optsched.objective import Objective
from optsched.result import ALL_SCHEDULES, UNCHUNKED

FORMULATIONS = ("auto", "network", "compact", "labels", "none")
_IMPLIED = {"nonpreemptive": ("no-evict", "no-chunk", "no-hold")}

# Above these sizes a root relaxation alone takes longer than most are willing to wait; the
# schedulers and the combinatorial bounds then do better.
MOST_NETWORK_COLUMNS = 400_000
MOST_COMPACT_STEPS = 20_000
MOST_PATH_STEPS = 20_000  # of requests that make calls


LABELS = "label setting"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One formulation to solve.

    Parameters
    ----------
    formulation : str
        ``network``, ``compact``, ``labels`` (label setting, which is no program), or ``rounds``
        (the network's time-indexed program without preemption, where all batches take equally
        long).
    chunking : bool
        Whether fills may be split; the compact formulation always allows it unless a policy
        forbids it.
    relaxed : bool
        Leave out the prices of chunks (p0, p_kv, p_req), so that the result is a bound for
        chunked schedules and its schedule one to be re-timed.
    scope : str
        The class of schedules that its bound holds for.
    """

    formulation: str
    chunking: bool
    relaxed: bool
    scope: str

    @property
    def name(self) -> str:
        """Name for the table of steps."""
        if self.formulation in ("compact", "labels"):
            return {"compact": "compact", "labels": LABELS}[self.formulation]
        if self.formulation == "rounds":
            return "network, time-indexed"
        if self.relaxed:
            return "network, chunks free"
        return "network, chunked" if self.chunking else "network"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Stages in order, and why these; ``scope`` describes what an optimum is over."""

    stages: tuple[Stage, ...]
    reason: str
    scope: str


def in_force(instance: Instance, policies: Collection[str]) -> frozenset[str]:
    """The policies and those that they imply, less handlings of calls where there are none.

    Raises
    ------
    UnknownNameError
        An unknown policy, or a handling of a request that does not exist.
    InvalidInputError
        Two handlings of the same calls.
    """
    for policy in policies:
        if policy not in POLICIES and handling_of(policy) is None:
            raise UnknownNameError("policy", policy, POLICIES)
    required_handling(instance, policies)
    if not instance.has_calls:
        policies = [policy for policy in policies if handling_of(policy) is None]
    return frozenset(policies).union(*(_IMPLIED.get(policy, ()) for policy in policies))


def plan(
    instance: Instance, formulation: str, policies: Collection[str],
    objective: Objective = Objective.MAKESPAN, *, limited: Collection[Objective] = (),
) -> Plan:  # fmt: skip
    """Stages for ``instance``.

    ``auto`` takes the network formulation wherever that is exact, because it is by far the
    stronger one; where chunking may pay and its prices are not zero, the network formulation with
    free chunks gives a bound, the one without chunks a schedule, and the compact one is exact.

    Parameters
    ----------
    limited : collection of Objective
        Other objectives that have a limit.

    Raises
    ------
    UnknownNameError
        An unknown formulation or policy.
    UnsupportedError
        A formulation was asked for that does not cover the instance.
    """
    if formulation not in FORMULATIONS:
        raise UnknownNameError("formulation", formulation, FORMULATIONS)
    scope = ALL_SCHEDULES
    if objective.maximised:
        scope += " that never wait deliberately"
    if policies:
        scope += f" under {', '.join(sorted(policies))}"
    policies = in_force(instance, policies)
    if formulation == "none":
        return Plan(stages=(), reason="none was asked for", scope=scope)
    if formulation == "labels" or (formulation != "compact" and moves_kv(instance, policies)):
        return _plan_of_paths(instance, formulation, policies, objective, scope)
    if formulation == "compact":
        compact = Stage(formulation="compact", chunking=True, relaxed=False, scope=scope)
        return Plan(stages=(compact,), reason="compact, as asked for: it is complete", scope=scope)
    return _plan(instance, formulation, policies, objective, limited, scope)


def moves_kv(instance: Instance, policies: Collection[str]) -> bool:
    """Whether requests make calls, or their KV can be swapped."""
    swaps = instance.limits.host_kv_tokens > 0 and "no-swap" not in policies
    return instance.has_calls or swaps


def _plan_of_paths(
    instance: Instance, formulation: str, policies: Collection[str], objective: Objective,
    scope: str,
) -> Plan:  # fmt: skip
    """Label setting, the network with each request's path through calls and host memory, and, as
    neither splits fills, the compact formulation."""
    whole = chunking_is_pointless(instance, policies, objective)
    unchunked = scope if whole.holds else UNCHUNKED
    labels = Stage(formulation="labels", chunking=False, relaxed=False, scope=unchunked)
    network = Stage(formulation="network", chunking=False, relaxed=False, scope=unchunked)
    compact = Stage(formulation="compact", chunking=True, relaxed=False, scope=scope)
    what = "label setting" if formulation == "labels" else "label setting and the network"
    what = "network" if formulation == "network" else what
    about = "exact" if whole.holds else "for schedules without chunks"
    reason = f"{what} {about}: {whole.reason}"
    if formulation != "auto":
        return Plan(
            stages=(labels if formulation == "labels" else network,), reason=reason, scope=scope
        )
    if compact_steps(instance, _batches(instance)) > MOST_PATH_STEPS:
        reason = "too large for a formulation: schedulers and bounds only"
        return Plan(stages=(), reason=reason, scope=scope)
    if whole.holds:
        return Plan(stages=(labels, network), reason=reason, scope=scope)
    reason += ", compact because it is complete"
    return Plan(stages=(labels, network, compact), reason=reason, scope=scope)


def _plan(
    instance: Instance, formulation: str, policies: Collection[str], objective: Objective,
    limited: Collection[Objective], scope: str,
) -> Plan:  # fmt: skip
    in_rounds = [applies(instance, policies, each) for each in (objective, *limited)]
    if all(verdict.holds for verdict in in_rounds):
        rounds = Stage(formulation="rounds", chunking=False, relaxed=False, scope=scope)
        reason = f"time-indexed, a program of when requests start: {in_rounds[0].reason}"
        return Plan(stages=(rounds,), reason=reason, scope=scope)
    batches = _batches(instance)
    # Fill, decode, hold and wait of every token of a type in every batch, before a closer count.
    size = 4 * batches * sum(output for _, output in _shapes(instance))
    if size <= MOST_NETWORK_COLUMNS:
        size = estimated_columns(
            instance, batches, policies=policies, objective=objective,
            at_most=dict.fromkeys(limited, 0.0),
        )  # fmt: skip
    large = size > MOST_NETWORK_COLUMNS and formulation == "auto"
    small = compact_steps(instance, batches) <= MOST_COMPACT_STEPS
    verdicts = [chunking_is_pointless(instance, policies, each) for each in (objective, *limited)]
    # What is postponed leaves every objective no worse, all at once.
    pointless = next((verdict for verdict in verdicts if not verdict.holds), verdicts[0])
    exact = chunking_is_exact(instance, policies, objective)
    relaxable = relaxation_is_valid(instance, policies, objective)
    if limited:
        exact = relaxable = Verdict(False, "other objectives are limited")
    stages: tuple[Stage, ...]
    if pointless.holds or exact.holds:
        chunking = not pointless.holds
        claim = exact if chunking else pointless
        stages = (Stage(formulation="network", chunking=chunking, relaxed=False, scope=scope),)
        reason = f"network, exact {'with' if chunking else 'without'} chunks: {claim.reason}"
    else:
        stages = (Stage(formulation="network", chunking=False, relaxed=False, scope=UNCHUNKED),)
        reason = f"network without chunks for a schedule ({pointless.reason})"
        if relaxable.holds:
            free = Stage(formulation="network", chunking=True, relaxed=True, scope=scope)
            stages = (free, *stages)
            reason = "network with free chunks for the bound, " + reason
    if large:
        stages, reason = (), "too large for a formulation: schedulers and bounds only"
    elif stages[-1].scope == UNCHUNKED and formulation == "auto" and small:
        compact = Stage(formulation="compact", chunking=True, relaxed=False, scope=scope)
        stages, reason = (*stages, compact), f"{reason}, compact because it is complete"
    return Plan(stages=stages, reason=reason, scope=scope)


def _batches(instance: Instance) -> int:
    """About how many batches a schedule has: what memory, tokens and the longest chain ask for."""
    limits = instance.limits
    prompt, output = instance.prompt_tokens, instance.output_tokens
    area = int((output * prompt + output * (output - 1) // 2).sum()) // limits.kv_tokens
    tokens = int(instance.final_tokens.sum()) // limits.batch_tokens
    return max(area, tokens, int(output.max())) + 1


def _shapes(instance: Instance) -> set[tuple[int, int]]:
    return set(zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True))


def compact_steps(instance: Instance, batches: int) -> int:
    """Number of (request, generated tokens, batch): what the compact formulation grows with."""
    return batches * int(instance.output_tokens.sum())
