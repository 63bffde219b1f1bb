"""Back ends by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from optsched.errors import SolverError, UnknownNameError
from optsched.solvers import available, catalogue, require_solver, solver


def test_names_do_not_depend_on_case() -> None:
    assert solver("HiGHS") is solver("highs") is solver()
    assert solver("PULP:cbc").args == solver("cbc").args == solver("pulp:PULP_CBC_CMD").args  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wrong", "meant"), [("higs", "highs"), ("gurobbi", "gurobi"), ("pulp:CBCC", "pulp:CBC")]
)
def test_unknown_names_suggest_others(wrong: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=meant) as caught:
        solver(wrong)
    assert caught.value.exit_code == 2
    with pytest.raises(UnknownNameError, match=meant):
        require_solver(wrong)


def test_a_missing_solver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.FAMILIES, "SCIP", (("NOT_THERE",), "pip install pyscipopt"))
    with pytest.raises(SolverError, match="'scip' is not installed") as caught:
        solver("scip")
    with pytest.raises(SolverError, match="'scip' is not installed"):
        require_solver("scip")
    assert caught.value.hint == "pip install pyscipopt"
    assert available()["pulp:SCIP"] == "not installed: pip install pyscipopt"


def test_cpsat_without_ortools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SolverError, match="not installed"):
        solver("cpsat")
    with pytest.raises(SolverError, match="not installed"):
        require_solver("cpsat")
    assert available()["cpsat"].startswith("not installed")


def test_available_has_versions() -> None:
    found = available()
    assert found["highs"].startswith("HiGHS 1.")
    assert found["pulp:CBC"].startswith("CBC 2.")


@pytest.mark.parametrize("name", ["highs", "HiGHS", "pulp:CBC", "cbc"])
def test_what_is_there_is_not_refused(name: str) -> None:
    require_solver(name)


def test_importing_the_package_loads_no_solver() -> None:
    code = (
        "import optsched.solvers, sys; optsched.solvers.require_solver('highs');"
        "print([m for m in ('highspy', 'pulp', 'ortools', 'gurobipy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
