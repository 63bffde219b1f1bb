"""Two programs of ours on which HiGHS 1.16.0 errs; the reason for the cap on its version."""

from __future__ import annotations

from pathlib import Path

import highspy
import numpy as np
import pytest

from optsched.model.milp import FloatArray
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions, Termination
from tests.solvers.programs import read_model

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "highs_regressions"
OPTIMA = {"false_infeasible": 63642.53, "wrong_objective": 46277.5}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the two models are not here: no folder {FOLDER}"
)


def start_of(name: str) -> FloatArray | None:
    path = FOLDER / f"{name}.start.txt"
    return np.array(path.read_text().split(), dtype=np.float64) if path.exists() else None


@pytest.mark.parametrize("name", OPTIMA)
def test_highs_itself(name: str) -> None:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(FOLDER / f"{name}.mps"))
    start = start_of(name)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start
        highs.setSolution(solution)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert highs.getObjectiveValue() == pytest.approx(OPTIMA[name])
    point = np.array(highs.getSolution().col_value)
    assert read_model(FOLDER / f"{name}.mps").value(point) == pytest.approx(OPTIMA[name])


@pytest.mark.parametrize("name", OPTIMA)
@pytest.mark.parametrize("with_start", [True, False])
@pytest.mark.parametrize("back_end", ["highs", "pulp:CBC"])
def test_back_ends(back_end: str, name: str, with_start: bool) -> None:
    milp = read_model(FOLDER / f"{name}.mps")
    outcome = solver(back_end)(milp, SolverOptions(), start_of(name) if with_start else None)
    assert outcome.termination is Termination.FINISHED
    assert milp.value(outcome.point) == pytest.approx(OPTIMA[name])
    assert outcome.bound == pytest.approx(OPTIMA[name], rel=2e-6)
