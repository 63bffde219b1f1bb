"""``python -m optsched``."""

from optsched.cli.main import run

run()
