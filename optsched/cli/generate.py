"""``optsched generate``: seeded workloads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from optsched import io
from optsched.cli.parameters import Command, FiniteRange, split_names
from optsched.instance import Instance, require_feasible
from optsched.io.augmented import augmented
from optsched.io.generate import AZURE_RATE, azure_like, mix, uniform

_COUNT = click.IntRange(min=1)
_out = click.option("--out", type=click.Path(path_type=Path), help="Instance file, else stdout.")
_kv = click.option("--kv-tokens", type=_COUNT, help="KV capacity M.")
_seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)


def _preset(default: str) -> Callable[[Command], Command]:
    return click.option("--preset", "preset_name", default=default, show_default=True)


def _deliver(instance: Instance, out: Path | None) -> None:
    require_feasible(instance)  # with --kv-tokens even one request alone may not fit
    if out is None:
        click.echo(io.format_instance(instance), nl=False)
        return
    io.write_instance(instance, out)
    click.echo(f"{out}: {len(instance)} requests", err=True)


@click.group(
    short_help="Make a seeded workload.",
    epilog="""\b
Examples:
  optsched generate azure-like --requests 1000 --out hour.json
  optsched generate uniform --requests 4 --prompt 8 --output 4 --out four.json
  optsched generate mix --groups SISO+LILO --requests 64 --out mix.json
  optsched generate augmented --requests 400 --rate 2 --host-kv-tokens 200000 --out calls.json
""",
)
def generate() -> None:
    """Make a workload: the same seed gives the same requests."""


@generate.command("azure-like")
@click.option("--requests", type=_COUNT, default=1000, show_default=True)
@click.option(
    "--rate", type=FiniteRange(min=0), default=AZURE_RATE, show_default=True,
    help="Arrivals per second; 0 lets all arrive at once.",
)  # fmt: skip
@_preset("llama3-70b-4xa100")
@_kv
@_seed
@_out
def azure_like_(
    requests: int, rate: float, preset_name: str, kv_tokens: int | None, seed: int,
    out: Path | None,
) -> None:  # fmt: skip
    """Lengths and arrivals like those of the Azure conversation hour of 2023."""
    instance = azure_like(
        requests, seed=seed, rate=rate, preset_name=preset_name, kv_tokens=kv_tokens
    )
    _deliver(instance, out)


@generate.command("uniform")
@click.option("--requests", type=_COUNT, required=True)
@click.option("--prompt", type=_COUNT, required=True, help="Prompt tokens I of each request.")
@click.option("--output", type=_COUNT, required=True, help="Output tokens O of each request.")
@_preset("study")
@_kv
@_out
def uniform_(
    requests: int, prompt: int, output: int, preset_name: str, kv_tokens: int | None,
    out: Path | None,
) -> None:  # fmt: skip
    """Equal requests, all at once; M defaults to max(2 I, I + O - 1) (InferMax, section 5.1)."""
    _deliver(uniform(requests, prompt, output, kv_tokens=kv_tokens, preset_name=preset_name), out)


@generate.command("mix")
@click.option("--requests", type=_COUNT, required=True)
@click.option("--groups", required=True, help="Two of SISO, SILO, LISO, LILO joined by +.")
@_preset("study")
@_kv
@_seed
@_out
def mix_(
    requests: int, groups: str, preset_name: str, kv_tokens: int | None, seed: int,
    out: Path | None,
) -> None:  # fmt: skip
    """Half of the requests from each of two groups, all at once (InferMax, section 4.6)."""
    instance = mix(requests, groups, seed=seed, kv_tokens=kv_tokens, preset_name=preset_name)
    _deliver(instance, out)


@generate.command("augmented")
@click.option("--requests", type=_COUNT, default=397, show_default=True)
@click.option(
    "--rate", type=FiniteRange(min=0), default=2.0, show_default=True,
    help="Poisson arrivals per second; 0 lets all arrive at once.",
)  # fmt: skip
@click.option(
    "--classes", metavar="NAME,...", callback=split_names,
    help="Only these of math, qa, ve, chatbot, image and tts, joined by commas.",
)  # fmt: skip
@_preset("llama2-7b-a100")
@_kv
@click.option(
    "--host-kv-tokens", type=click.IntRange(min=0), default=0, show_default=True,
    help="Host memory for swapped KV; 0: no swapping.",
)  # fmt: skip
@_seed
@_out
def augmented_(
    requests: int, rate: float, classes: tuple[str, ...] | None, preset_name: str,
    kv_tokens: int | None, host_kv_tokens: int, seed: int, out: Path | None,
) -> None:  # fmt: skip
    """Requests with calls, like those of INFERCEPT's workload.

    Classes, call counts, durations and lengths follow the figures per class of the INFERCEPT
    workload (Abhyankar et al., ICML 2024) as republished by MARS (mars-repository/mars-codebase);
    requests are named CLASS-NUMBER.
    """
    instance = augmented(
        requests, rate=rate, seed=seed, classes=classes, preset_name=preset_name,
        kv_tokens=kv_tokens, host_kv_tokens=host_kv_tokens,
    )  # fmt: skip
    _deliver(instance, out)
