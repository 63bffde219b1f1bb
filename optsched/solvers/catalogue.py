"""Back ends by name, and which of them are installed.

Nothing is imported before it is asked for: the CP-SAT worker imports this package, and highspy and
ortools cannot live in one process.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import warnings
from functools import partial

from optsched.errors import SolverError, UnknownNameError
from optsched.solvers.outcome import Solver

# Family -> names that PuLP has for it, best first, and how to get it.
FAMILIES: dict[str, tuple[tuple[str, ...], str]] = {
    "CBC": (("COIN_CMD", "PULP_CBC_CMD"), "pip install 'pulp[cbc]'"),
    "GUROBI": (("GUROBI", "GUROBI_CMD"), "pip install gurobipy"),
    "SCIP": (("SCIP_PY", "SCIP_CMD", "FSCIP_CMD"), "pip install pyscipopt"),
    "CPLEX": (("CPLEX_PY", "CPLEX_CMD"), "pip install cplex, or put cplex on the PATH"),
    "XPRESS": (("XPRESS_PY", "XPRESS"), "pip install xpress"),
    "HiGHS": (("HiGHS", "HiGHS_CMD"), "pip install highspy"),
    "COPT": (("COPT", "COPT_CMD"), "pip install coptpy"),
    "MOSEK": (("MOSEK",), "pip install mosek"),
    "GLPK": (("GLPK_CMD",), "put glpsol on the PATH"),
}
CPSAT_HINT = "pip install 'optsched[cpsat]'"


def solver(name: str = "highs") -> Solver:
    """The back end called ``name``; case does not matter.

    ``highs`` (arrays straight to highspy), ``cpsat`` (OR-tools in a process of its own),
    ``pulp:FAMILY`` for what PuLP finds (``pulp:CBC`` comes with it), ``pulp:NAME`` for a name of
    PuLP's own, and ``gurobi``, ``cbc``, ``scip`` ... for ``pulp:GUROBI`` and so on.

    Raises
    ------
    UnknownNameError
        There is no such back end.
    SolverError
        It is not installed; the hint says how to.
    """
    key = _key(name)
    if key == "highs":
        from optsched.solvers.highs import highs

        return highs
    if key == "cpsat":
        _require_ortools()
        from optsched.solvers.cpsat import cpsat

        return cpsat
    chosen = _pulp_name(name, key)
    if chosen in FAMILIES["CBC"][0]:
        from optsched.solvers.cbc import cbc

        return partial(cbc, _cbc_executable(chosen))
    from optsched.solvers.pulp import pulp_solver

    return partial(pulp_solver, chosen)


def require_solver(name: str) -> None:
    """Refuse a name that :func:`solver` would refuse, without loading the back end.

    Raises
    ------
    UnknownNameError, SolverError
        As :func:`solver`.
    """
    key = _key(name)
    if key == "cpsat":
        _require_ortools()
    elif key != "highs":
        _pulp_name(name, key)


def available() -> dict[str, str]:
    """Name -> version of every back end, or ``not installed`` and how to install it."""
    found = {"highs": f"HiGHS {importlib.metadata.version('highspy')}"}
    if importlib.util.find_spec("ortools") is None:
        found["cpsat"] = f"not installed: {CPSAT_HINT}"
    else:
        found["cpsat"] = f"OR-tools {importlib.metadata.version('ortools')}"
    for family, (names, hint) in FAMILIES.items():
        try:
            chosen = next((n for n in names if _installed(n)), None)
        except SolverError as error:
            found[f"pulp:{family}"] = f"not usable: {error.message}"
            continue
        found[f"pulp:{family}"] = f"not installed: {hint}" if chosen is None else _version(chosen)
    return found


def _key(name: str) -> str:
    return name.strip().lower()


def _require_ortools() -> None:
    if importlib.util.find_spec("ortools") is None:
        raise SolverError("solver 'cpsat' is not installed", hint=CPSAT_HINT)


def _pulp_name(name: str, key: str) -> str:
    """PuLP's own name of the solver that ``key`` asks for; it is installed."""
    import pulp

    key = key.removeprefix("pulp:")
    by_family = {family.lower(): entry for family, entry in FAMILIES.items()}
    by_name = {pulp_name.lower(): pulp_name for pulp_name in pulp.listSolvers()}
    if key in by_family:
        candidates, hint = by_family[key]
    elif key in by_name:
        candidates, hint = (by_name[key],), "see PuLP's documentation of this solver"
    else:
        known = ["highs", "cpsat", *(f"pulp:{family}" for family in FAMILIES)]
        known += [family.lower() for family in FAMILIES if family != "HiGHS"]
        raise UnknownNameError("solver", name, known)
    chosen = next((candidate for candidate in candidates if _installed(candidate)), None)
    if chosen is None:
        raise SolverError(f"solver {name!r} is not installed", hint=hint)
    return chosen


def _installed(pulp_name: str) -> bool:
    """Whether PuLP can use a solver.

    Raises
    ------
    SolverError
        It is there but unusable; PuLP warns why (an expired licence, for instance).
    """
    import pulp

    if pulp_name not in pulp.listSolvers():
        return False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ready = bool(pulp.getSolver(pulp_name, msg=False).available())
    reasons = [str(w.message) for w in caught if "deprecated" not in str(w.message)]
    if not ready and reasons:
        raise SolverError(f"solver {pulp_name} is not usable: {reasons[-1].strip()}")
    return ready


def _cbc_executable(pulp_name: str) -> str:
    import pulp

    path = pulp.PULP_CBC_CMD.pulp_cbc_path
    if pulp_name == "COIN_CMD":
        path = pulp.COIN_CMD(msg=False).path
    return shutil.which(path) or str(path)


def _version(pulp_name: str) -> str:
    if pulp_name in FAMILIES["CBC"][0]:
        from optsched.solvers.cbc import cbc_version

        return cbc_version(_cbc_executable(pulp_name))
    packages = {"GUROBI": "gurobipy", "HiGHS": "highspy", "SCIP_PY": "pyscipopt"}
    package = packages.get(pulp_name)
    return f"{package} {importlib.metadata.version(package)}" if package else pulp_name
