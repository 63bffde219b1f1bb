"""A user's scheduler from a file: the example of the documentation, and everything that can be
wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.check import check
from optsched.errors import InvalidInputError, OptschedError, UnsupportedError
from optsched.instance import Instance, Limits, Request
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from tests.tiny import random_instance
from tests.warmstart.workloads import UNIT, workload

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "shortest_first.py"
INSTANCE = Instance(
    name="one", limits=Limits(kv_tokens=10, batch_tokens=10), cost=UNIT,
    requests=(Request(id="r", prompt_tokens=2, output_tokens=2),),
)  # fmt: skip


def written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return f"{path}:mine"


def test_the_example_keeps_every_rule() -> None:
    shortest_first = scheduler(f"{EXAMPLE}:shortest_first")
    for seed in range(60):
        tiny = random_instance(seed, most_requests=6, arrivals=True, pages=True, tight=True)
        for instance in (tiny, workload(seed)):
            schedule = shortest_first(instance)
            assert check(instance, schedule, simulate(instance, schedule)) == ()


def test_any_callable_will_do(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\n"
        "from optsched.warmstart import scheduler\n"
        "@dataclass\nclass Named:\n    name: str\n"
        "    def __call__(self, instance):\n        return scheduler(self.name)(instance)\n"
        "mine = Named('vllm')\n"
    )
    mine = scheduler(written(tmp_path, text))
    assert mine(INSTANCE).same_as(scheduler("vllm")(INSTANCE))


@pytest.mark.parametrize("reference", ["mine.py", "mine:f", "mine.py:", "mine.py:not a name"])
def test_a_malformed_reference_is_explained(reference: str) -> None:
    with pytest.raises(InvalidInputError, match=r"path/to/file\.py:function"):
        scheduler(reference)


def test_a_missing_file() -> None:
    with pytest.raises(InvalidInputError, match=r"nowhere/mine\.py"):
        scheduler("nowhere/mine.py:mine")


def test_a_missing_function_is_told_with_those_there(tmp_path: Path) -> None:
    reference = written(tmp_path, "def yours(instance): ...\n")
    with pytest.raises(InvalidInputError, match=r"(?s)defines no 'mine'.*it defines: yours"):
        scheduler(reference)


def test_something_that_cannot_be_called(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'mine' of .* is a int, expected a function"):
        scheduler(written(tmp_path, "mine = 3\n"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def mine(:\n", "SyntaxError: .*mine.py:1"),
        ("\nimport nothing_of_this_name\n", "ModuleNotFoundError: .*mine.py:2"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 at .*mine.py:2"),
        ("class Own(BaseException): pass\nraise Own('no')\n", "Own: no at .*mine.py:2"),
        ("compile('1 +', 'other.py', 'exec')\n", r"SyntaxError: .* at other\.py:1"),
    ],
)
def test_a_file_that_does_not_run(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(OptschedError, match=line):
        scheduler(written(tmp_path, text))


def test_an_exception_is_told_with_its_line(tmp_path: Path) -> None:
    text = "def mine(instance):\n    return helper()\n\ndef helper():\n    return [][1]\n"
    mine = scheduler(written(tmp_path, text))
    with pytest.raises(
        OptschedError, match=r"scheduler 'mine' raised IndexError: list index .*mine\.py:5"
    ):
        mine(INSTANCE)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("class Own(BaseException): pass", "raised Own: no at .*mine.py:4"),
        ("Own = SystemExit", "raised SystemExit: no at .*mine.py:4"),
        ("Own = GeneratorExit", "raised GeneratorExit: no at .*mine.py:4"),
        ("class Own(Exception):\n  def __str__(self): return 1 / 0", "raised Own at .*mine.py:5"),
    ],
)
def test_whatever_it_raises_is_told(tmp_path: Path, raised: str, told: str) -> None:
    text = f"{raised}\n\ndef mine(instance):\n    raise Own('no')\n"
    with pytest.raises(OptschedError, match=told):
        scheduler(written(tmp_path, text))(INSTANCE)


def test_ctrl_c_is_no_fault_of_it(tmp_path: Path) -> None:
    mine = scheduler(written(tmp_path, "def mine(instance):\n    raise KeyboardInterrupt\n"))
    with pytest.raises(KeyboardInterrupt):
        mine(INSTANCE)


def test_what_it_prints_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "from optsched.warmstart import scheduler\nprint('loading')\n"
        "def mine(instance):\n    print('thinking')\n    return scheduler('vllm')(instance)\n"
    )
    scheduler(written(tmp_path, text))(INSTANCE)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "loading\nthinking\n"


def test_a_refusal_of_its_own_passes_unchanged(tmp_path: Path) -> None:
    text = (
        "from optsched.errors import UnsupportedError\n"
        "def mine(instance):\n    raise UnsupportedError('not on Mondays')\n"
    )
    with pytest.raises(UnsupportedError, match=r"^not on Mondays$"):
        scheduler(written(tmp_path, text))(INSTANCE)


def test_a_result_that_is_no_schedule(tmp_path: Path) -> None:
    mine = scheduler(written(tmp_path, "def mine(instance):\n    return [1]\n"))
    with pytest.raises(OptschedError, match="returned list, expected a Schedule"):
        mine(INSTANCE)
