"""Schedulers by name, or from a user's file."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.errors import UnknownNameError
from optsched.instance import Instance, require_feasible
from optsched.schedule import Schedule
from optsched.warmstart.augmented import AUGMENTED
from optsched.warmstart.calls_schedulers import CALLS
from optsched.warmstart.clock_schedulers import CLOCK
from optsched.warmstart.loop import run
from optsched.warmstart.own import load
from optsched.warmstart.portfolio import LOOK_AHEAD
from optsched.warmstart.protocol import Scheduler
from optsched.warmstart.refusal import require_no_calls
from optsched.warmstart.rule import Reserve, Rule
from optsched.warmstart.state import page_budget, prefill_budget
from optsched.warmstart.table import RULES


@dataclass(frozen=True)
class RuleScheduler:
    """A rule as a :class:`Scheduler`."""

    rule: Rule

    def __call__(self, instance: Instance, /) -> Schedule:
        """Run the rule.

        Raises
        ------
        UnsupportedError
            A request makes calls.
        InfeasibleError
            A request cannot run even alone.
        """
        require_no_calls(instance, self.rule.name)
        require_feasible(instance)
        return run(instance, self.rule)


def schedulers() -> dict[str, Scheduler]:
    """Every built-in scheduler by name: InferMax's Table 1, its eviction-free variants, others,
    the look-ahead schedulers, and those for objectives of the clock."""
    rules: dict[str, Scheduler] = {name: RuleScheduler(rule) for name, rule in RULES.items()}
    return {**rules, **LOOK_AHEAD, **CLOCK, **CALLS, **AUGMENTED}


def scheduler(name_or_path: str) -> Scheduler:
    """The scheduler of this name, or a function ``NAME`` of a Python file as ``FILE.py:NAME``.

    Raises
    ------
    UnknownNameError
        No scheduler has this name.
    InvalidInputError
        The file or the function does not exist.
    OptschedError
        The file does not run.
    """
    if ":" in name_or_path or name_or_path.endswith(".py"):
        return load(name_or_path)
    found = schedulers().get(name_or_path)
    if found is None:
        raise UnknownNameError("scheduler", name_or_path, schedulers())
    return found


def describe(name: str) -> str:
    """One line on what a built-in scheduler does."""
    if name in LOOK_AHEAD:
        return f"{LOOK_AHEAD[name].summary} (clairvoyant)"
    if name in CLOCK:
        return f"{CLOCK[name].summary} (clairvoyant)"
    if name in AUGMENTED:
        return AUGMENTED[name].summary
    if name in CALLS:
        return f"{CALLS[name].summary} (clairvoyant)"
    if name not in RULES:
        raise UnknownNameError("scheduler", name, schedulers())
    rule = RULES[name]
    return f"{rule.summary} (clairvoyant)" if rule.clairvoyant else rule.summary


def notes(name: str, instance: Instance) -> tuple[str, ...]:
    """Where a built-in scheduler departs from its own rule on this instance, a sentence each.

    A rule without chunking cannot process a fill that exceeds min(C, P): it is cut into pieces of
    that size. vLLM's null block is left out where a request needs every page. A scheduler from a
    user's file has no notes.
    """
    if name not in RULES:
        return ()
    rule = RULES[name]
    limits = instance.limits
    budget = prefill_budget(instance, rule)
    long = int((instance.prompt_tokens > budget).sum())
    lines = []
    if not rule.chunked and long:
        lines.append(
            f"{name}: {long} of {len(instance)} prompts exceed min(batch_tokens, prefill_tokens) "
            f"= {budget} and are chunked at that size although the rule does not chunk"
        )
    grown = int((instance.final_tokens > budget).sum()) - long
    if not rule.chunked and rule.evicts and grown:
        lines.append(
            f"{name}: {grown} more requests grow beyond {budget} tokens; a refill of that length "
            "is chunked at that size although the rule does not chunk"
        )
    if rule.reserve is Reserve.CHUNK and limits.block_tokens > 1:
        pages = limits.kv_tokens // limits.block_tokens
        if page_budget(instance, rule) == pages:
            lines.append(
                f"{name}: a request needs all {pages} pages, so none is lost to the null block"
            )
    return tuple(lines)
