"""What the README shows is what happens; times that a run takes are masked."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import optsched

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.M | re.S)


def masked(text: str) -> str:
    """``text`` with the seconds that something took replaced, and with the column widths that
    follow them."""
    text = re.sub(r" +\d+\.\d\d s$", " # s", text, flags=re.M)
    text = re.sub(r"(finished|time-limit) +\d+\.\d\d", r"\1 #", text)
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return re.sub(r" {2,}", "  ", re.sub(r"─+", "─", text))


@pytest.mark.parametrize("block", blocks("console"), ids=lambda b: b.splitlines()[0])
def test_console(block: str) -> None:
    command, _, shown = block.partition("\n")
    ended = optsched(*shlex.split(command.removeprefix("$ optsched ")))
    assert ended.code == 0
    assert masked(ended.out) == masked(shown)


def test_python() -> None:
    [code], [shown] = blocks("python"), blocks("text")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue() == shown
