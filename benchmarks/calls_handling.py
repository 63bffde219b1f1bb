"""Which handling of a call is optimal, and what the formulas of the literature would choose.

    python -m benchmarks.calls_handling [--objective mean-latency] [--time-limit 20]

One request with a context of L tokens makes a call of D seconds, and at that moment two others
arrive, under ``llama2-7b-a100``. ``tight``: memory holds no other beside the caller's context;
``roomy``: all three. For every D and L the optimum over unchunked schedules (``proven`` says if it
is) and its handling, and beside it that of least waste (INFERCEPT, MARS; the duration known, the
swap budget unlimited):

    preserve  D * L        discard  t(L) * (L + others)        swap  2 * swap_tok * L * (L + others)

with t(L) the time of a batch that fills L tokens and ``others`` the KV of the other requests beside
it, those that memory has room for. ``loss`` is how much worse the best schedule is that handles the
call as the formula says.
"""

from __future__ import annotations

import click

from optsched.cli.output import percent, print_table
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.solve import SolveOptions, solve

DURATIONS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
CONTEXTS = (256, 1024, 2048, 3500)
OTHER_PROMPT, OTHER_OUTPUT = 512, 4
COLUMNS = ("memory", "D s", "L", "optimal", "value s", "least waste", "loss", "proven")


def instance(duration_s: float, context: int, *, tight: bool) -> Instance:
    """The caller, and two others that arrive when it makes its call."""
    cost = preset("llama2-7b-a100").cost
    prompt = context - 1
    call_s = float(cost.token_time(prompt) + cost.prefill_time(prompt, 0))
    call_s += float(cost.token_time(1) + cost.decode_time(prompt))
    caller = Request(
        id="caller", prompt_tokens=prompt, output_tokens=4,
        calls=(Call(after_tokens=2, duration_s=duration_s, response_tokens=16),),
    )  # fmt: skip
    others = tuple(
        Request(
            id=f"other{k}",
            prompt_tokens=OTHER_PROMPT,
            output_tokens=OTHER_OUTPUT,
            arrival_s=call_s,
        )
        for k in range(2)
    )
    alone = context + 32
    room = max(alone, OTHER_PROMPT + OTHER_OUTPUT)
    if not tight:
        room = alone + 2 * (OTHER_PROMPT + OTHER_OUTPUT)
    return Instance(
        name=f"D{duration_s:g}-L{context}-{'tight' if tight else 'roomy'}", cost=cost,
        limits=Limits(kv_tokens=room, batch_tokens=4096, host_kv_tokens=room),
        requests=(caller, *others),
    )  # fmt: skip


def least_waste(workload: Instance, duration_s: float, context: int, *, tight: bool) -> str:
    """The handling that the formulas choose."""
    cost = workload.cost
    others = 0 if tight else 2 * OTHER_PROMPT
    refill_s = float(cost.token_time(context)) + float(cost.prefill_time(context, 0))
    waste = {
        "preserve": duration_s * context,
        "discard": refill_s * (context + others),
        "swap": 2 * cost.swap_tok * context * (context + others),
    }
    return min(waste, key=lambda name: waste[name])


def cell(
    duration_s: float, context: int, objective: Objective, time_limit_s: float, *, tight: bool
) -> tuple[str, ...]:
    """One row of the table."""
    workload = instance(duration_s, context, tight=tight)
    chosen = least_waste(workload, duration_s, context, tight=tight)
    free, forced = (
        solve(
            workload,
            SolveOptions(
                objective=objective, policies=("no-chunk", *policies), time_limit_s=time_limit_s
            ),
        )
        for policies in ((), (f"{chosen}:caller",))
    )
    assert free.value is not None
    assert forced.value is not None
    best = free.handling[0]
    shown = best.handling if best.resumed > best.batch + 1 else "none needed"
    return (
        "tight" if tight else "roomy", f"{duration_s:g}", str(context), shown, f"{free.value:.5f}",
        chosen, percent(max(0.0, forced.value / free.value - 1)),
        "yes" if free.optimal and forced.optimal else "no",
    )  # fmt: skip


@click.command()
@click.option(
    "--objective", type=click.Choice([o.value for o in Objective]), default="mean-latency"
)
@click.option("--time-limit", default=20.0, show_default=True, help="Seconds for each solve.")
def main(objective: str, time_limit: float) -> None:
    """Print the table."""
    rows = []
    for tight in (True, False):
        for duration_s in DURATIONS_S:
            for context in CONTEXTS:
                row = cell(duration_s, context, Objective(objective), time_limit, tight=tight)
                rows.append(row)
                click.echo("  ".join(row), err=True)
    print_table(COLUMNS, rows, left=(0, 3, 5, 7))


if __name__ == "__main__":
    main()
