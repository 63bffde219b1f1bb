"""Writes the best known result beside every instance: X.best.json with value, bound and proof.

    python -m instances.make_best [FOLDER ...]

``optsched solve`` with its defaults; the instances of ``tiny/`` are also searched exhaustively,
which proves the optimum where no formulation does (arrivals). Times are left out, so that the same
code writes the same bytes.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from optsched.instance import Instance
from optsched.io import read_instance, write_result
from optsched.result import Result
from optsched.simulate import simulate
from optsched.solve import solve
from tests.oracle import optimum

HERE = Path(__file__).resolve().parent
EXHAUSTIVE = "exhaustive search (tests/oracle.py)"


def paths(folder: Path) -> list[Path]:
    """Instance files below ``folder``."""
    return sorted(p for p in folder.rglob("*.json") if not p.name.endswith(".best.json"))


def best(instance: Instance, *, exhaustive: bool) -> Result:
    """Result of ``solve``, closed by exhaustive search if that is wanted and necessary."""
    result = solve(instance)
    if exhaustive and not result.optimal:
        value, schedule = optimum(instance)
        result = replace(
            result, value=simulate(instance, schedule).makespan_s, bound=value, proof=EXHAUSTIVE,
            schedule=schedule, found_by=EXHAUSTIVE, termination="finished",
        )  # fmt: skip
    steps = tuple(msgspec.structs.replace(step, wall_s=0.0) for step in result.steps)
    return replace(result, wall_s=0.0, steps=steps, versions={})


def main() -> None:
    """Solve and write."""
    folders = [Path(name) for name in sys.argv[1:]] or [HERE]
    for path in (p for folder in folders for p in paths(folder.resolve())):
        instance = read_instance(path)
        result = best(instance, exhaustive="tiny" in path.parts)
        write_result(result, instance, path.with_suffix(".best.json"))
        gap = "unknown" if result.gap is None else f"{100 * result.gap:.4f} %"
        print(f"{path.relative_to(HERE)}: {result.value} s, gap {gap}, {result.proof}", flush=True)


if __name__ == "__main__":
    main()
