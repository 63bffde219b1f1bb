"""``optsched import``: published traces to instances."""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.io.importers import LAYOUTS, import_trace

_COUNT = click.IntRange(min=1)


@click.command(
    "import",
    short_help="Turn a published trace into an instance.",
    epilog="""\b
Examples:
  optsched import azure AzureLLMInferenceTrace_conv.csv --preset llama3-70b-4xa100 --out hour.json
  optsched import vidur splitwise_conv.csv --preset study --limit 500 --offline --out first.json
""",
)
@click.argument("layout", metavar="|".join(LAYOUTS))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--preset", "preset_name", required=True, help="Cost preset; also gives M and C.")
@click.option("--limit", type=_COUNT, help="Keep only the first N requests.")
@click.option("--offline", is_flag=True, help="Let all requests arrive at once.")
@click.option("--kv-tokens", type=_COUNT, help="KV capacity M instead of the preset's.")
@click.option("--batch-tokens", type=_COUNT, help="Token budget C instead of the preset's.")
@click.option(
    "--leave-out-oversized", is_flag=True,
    help="Leave out requests that exceed M instead of refusing the trace.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Instance file.")
def import_(
    layout: str, file: Path, preset_name: str, limit: int | None, offline: bool,
    kv_tokens: int | None, batch_tokens: int | None, leave_out_oversized: bool, out: Path,
) -> None:  # fmt: skip
    """Turn a published trace into an instance.

    LAYOUT is azure (the Azure LLM inference traces of 2023), vidur (Vidur's processed traces) or
    mooncake (Mooncake's JSON lines). Files with other columns are refused.
    """
    instance, left_out = import_trace(
        layout, file, preset_name=preset_name, limit=limit, offline=offline,
        kv_tokens=kv_tokens, batch_tokens=batch_tokens, leave_out_oversized=leave_out_oversized,
    )  # fmt: skip
    io.write_instance(instance, out)
    click.echo(f"{out}: {len(instance)} requests", err=True)
    if left_out:
        click.echo(f"left out (larger than M): {', '.join(left_out)}", err=True)
