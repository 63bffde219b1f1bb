"""The instances that ship: every best known result is valid, and its claim true."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.make_tiny import instances as tiny_instances
from optsched.check import check
from optsched.io import read_instance, read_result
from optsched.io.bundled import default_instance
from optsched.io.generate import azure_like, uniform
from optsched.simulate import simulate
from tests.oracle import optimum

HERE = Path(__file__).resolve().parents[1] / "instances"
ALL = sorted(p for p in HERE.rglob("*.json") if not p.name.endswith(".best.json"))


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_best_known(path: Path) -> None:
    instance = read_instance(path)
    result = read_result(path.with_suffix(".best.json"), instance)
    assert result.digest == instance.digest
    assert result.schedule is not None
    assert result.value is not None
    assert result.bound is not None
    assert result.proof
    assert result.optimal
    assert check(instance, result.schedule) == ()
    assert simulate(instance, result.schedule).makespan_s == pytest.approx(result.value, rel=1e-12)
    if "tiny" in path.parts:
        assert result.value == pytest.approx(optimum(instance)[0], rel=1e-9)


def test_there_are_enough() -> None:
    assert len([p for p in ALL if "tiny" in p.parts]) >= 40
    assert len([p for p in ALL if "paper" in p.parts]) == 22


@pytest.mark.parametrize("preset", ["study", "llama2-7b-a100"])
@pytest.mark.parametrize("power", range(11))
def test_paper_instances_are_those_of_the_paper(preset: str, power: int) -> None:
    folder = HERE / "paper" if preset == "study" else HERE / "paper" / preset
    expected = uniform(4, 2**power, 4, preset_name=preset)
    assert read_instance(folder / f"I{2**power}.json") == expected


def test_tiny_instances_are_what_their_script_makes() -> None:
    made = {instance.name: instance for instance in tiny_instances()}
    stored = {p.stem: read_instance(p) for p in ALL if "tiny" in p.parts}
    assert made == stored


def test_the_bundled_instance_is_what_its_generator_makes() -> None:
    assert default_instance() == azure_like(1000)
