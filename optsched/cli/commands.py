"""The commands of ``optsched``."""

from __future__ import annotations

import click

from optsched import __version__
from optsched.cli.bound import bound
from optsched.cli.check import check
from optsched.cli.explain import explain
from optsched.cli.generate import generate
from optsched.cli.importing import import_
from optsched.cli.policies import policies
from optsched.cli.presets import presets
from optsched.cli.schedulers import schedulers
from optsched.cli.schema import schema
from optsched.cli.simulate import simulate
from optsched.cli.solve import solve
from optsched.cli.verify import verify

_EPILOG = """\b
Examples:
  optsched bound --scheduler sarathi                 how far is Sarathi from the best?
  optsched bound trace.json --scheduler all          every built-in scheduler on a trace
  optsched solve instances/paper/I4.json             a schedule proven optimal
  optsched import azure trace.csv --preset llama3-70b-4xa100 --out trace.json

\b
Exit codes: 0 fine, 1 error, 2 usage, 3 rules violated or claim refuted,
4 limit reached without proof. Data goes to stdout, everything else to stderr.
"""


@click.group(
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
@click.version_option(__version__, prog_name="optsched")
def main() -> None:
    """How good could an LLM-serving schedule possibly be?

    Takes a workload, a machine and an objective; gives the optimal schedule where it can be
    proven, a lower bound at any size, and the gap of any scheduler.
    """


for command in (
    solve, bound, policies, explain, verify, simulate, check, import_, generate, presets,
    schedulers, schema,
):  # fmt: skip
    main.add_command(command)
