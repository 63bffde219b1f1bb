"""``optsched import``: published traces to instances."""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.cli.parameters import FiniteRange, split_names
from optsched.errors import UnknownNameError
from optsched.io import infercept
from optsched.io.adjust import stretched, with_slos
from optsched.io.importers import LAYOUTS, import_trace

_COUNT = click.IntRange(min=1)
_SECONDS = FiniteRange(min=0, min_open=True)
_ALL_LAYOUTS = (*LAYOUTS, infercept.LAYOUT)


@click.command(
    "import",
    short_help="Turn a published trace into an instance.",
    epilog="""\b
Examples:
  optsched import azure AzureLLMInferenceTrace_conv.csv --preset llama3-70b-4xa100 --out hour.json
  optsched import azure trace.csv --preset llama3-70b-4xa100 --span 7002 --ttft-slo 1 \\
    --tpot-slo 0.1 --out slos.json
  optsched import vidur splitwise_conv.csv --preset study --limit 500 --offline --out first.json
  optsched import infercept infercept_api_workload.csv --preset llama2-7b-a100 --rate 2 --seed 0 \\
    --kv-tokens 20000 --host-kv-tokens 200000 --out calls.json
""",
)
@click.argument("layout", metavar="|".join(_ALL_LAYOUTS))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--preset", "preset_name", required=True, help="Cost preset; also gives M and C.")
@click.option("--limit", type=_COUNT, help="Keep only the first N requests.")
@click.option("--offline", is_flag=True, help="Let all requests arrive at once.")
@click.option("--kv-tokens", type=_COUNT, help="KV capacity M instead of the preset's.")
@click.option("--batch-tokens", type=_COUNT, help="Token budget C instead of the preset's.")
@click.option(
    "--host-kv-tokens", type=click.IntRange(min=0), default=0, show_default=True,
    help="Host memory for swapped KV; 0: no swapping.",
)  # fmt: skip
@click.option(
    "--leave-out-oversized", is_flag=True,
    help="Leave out requests that exceed M instead of refusing the trace.",
)  # fmt: skip
@click.option(
    "--rate", type=FiniteRange(min=0),
    help="infercept: Poisson arrivals per second; 0 lets all arrive at once.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0),
    help="infercept: order of the requests and their arrivals.  [default: 0]",
)  # fmt: skip
@click.option(
    "--classes", metavar="NAME,...", callback=split_names,
    help="infercept: only these classes, as math,qa.",
)  # fmt: skip
@click.option("--span", type=_SECONDS, help="Stretch the arrivals over so many seconds.")
@click.option("--ttft-slo", type=_SECONDS, help="Give every request this TTFT limit, seconds.")
@click.option("--tpot-slo", type=_SECONDS, help="The same for TPOT.")
@click.option("--latency-slo", type=_SECONDS, help="The same for latency.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Instance file.")
def import_(
    layout: str, file: Path, preset_name: str, limit: int | None, offline: bool,
    kv_tokens: int | None, batch_tokens: int | None, host_kv_tokens: int,
    leave_out_oversized: bool, rate: float | None, seed: int | None,
    classes: tuple[str, ...] | None,
    span: float | None, ttft_slo: float | None, tpot_slo: float | None,
    latency_slo: float | None, out: Path,
) -> None:  # fmt: skip
    """Turn a published trace into an instance.

    LAYOUT is azure (the Azure LLM inference traces of 2023), vidur (Vidur's processed traces),
    mooncake (Mooncake's JSON lines) or infercept (the API-augmented workload of INFERCEPT and
    MARS, a table of segments; its requests have calls and are named CLASS-NUMBER). Files with
    other columns are refused.
    """
    if layout not in _ALL_LAYOUTS:
        raise UnknownNameError("trace layout", layout, _ALL_LAYOUTS)
    if layout == infercept.LAYOUT:
        instance, left_out = infercept.import_infercept(
            file, preset_name=preset_name, rate=_rate(rate, offline), seed=seed or 0,
            classes=classes, limit=limit, kv_tokens=kv_tokens, batch_tokens=batch_tokens,
            host_kv_tokens=host_kv_tokens, leave_out_oversized=leave_out_oversized,
        )  # fmt: skip
    else:
        given = {"--rate": rate, "--seed": seed, "--classes": classes}
        _refuse([name for name, value in given.items() if value is not None], layout)
        instance, left_out = import_trace(
            layout, file, preset_name=preset_name, limit=limit, offline=offline,
            kv_tokens=kv_tokens, batch_tokens=batch_tokens, host_kv_tokens=host_kv_tokens,
            leave_out_oversized=leave_out_oversized,
        )  # fmt: skip
    if span is not None:
        instance = stretched(instance, span)
    instance = with_slos(instance, ttft_s=ttft_slo, tpot_s=tpot_slo, latency_s=latency_slo)
    io.write_instance(instance, out)
    click.echo(f"{out}: {len(instance)} requests", err=True)
    if left_out:
        click.echo(f"left out (larger than M): {', '.join(left_out)}", err=True)


def _rate(rate: float | None, offline: bool) -> float:
    """Arrivals per second for a workload without arrivals, which must be chosen."""
    if rate is None and not offline:
        raise click.UsageError(
            f"{infercept.LAYOUT} has no arrival times: give --rate, requests per second (INFERCEPT "
            "and MARS: 1 to 6), or --offline"
        )
    if rate and offline:
        raise click.UsageError(f"--rate {rate:g} and --offline contradict each other")
    return rate or 0.0


def _refuse(options: list[str], layout: str) -> None:
    if options:
        raise click.UsageError(
            f"{', '.join(options)}: only for {infercept.LAYOUT}, {layout} has its own arrivals and "
            "no classes"
        )
