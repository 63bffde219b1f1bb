"""What the solvers behind PuLP say themselves: termination, point and bound, three facts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from optsched.solvers.outcome import Progress, Termination
from optsched.solvers.scaling import Scaled
from optsched.solvers.watch import Watch


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts of one run in the solver's units; ``termination`` None if only the clock can tell."""

    termination: Termination | None
    has_point: bool
    value: float | None = None
    bound: float | None = None
    nodes: int | None = None
    message: str = ""


def gurobi_facts(problem: Any) -> Facts:
    """Facts of the gurobipy model that PuLP leaves in ``problem.solverModel``."""
    from gurobipy import GRB

    model = problem.solverModel
    terminations = {
        GRB.OPTIMAL: Termination.FINISHED,
        GRB.INFEASIBLE: Termination.INFEASIBLE,
        GRB.INF_OR_UNBD: Termination.INFEASIBLE,
        GRB.UNBOUNDED: Termination.INFEASIBLE,
        GRB.TIME_LIMIT: Termination.TIME_LIMIT,
        GRB.INTERRUPTED: Termination.INTERRUPTED,
    }
    termination = terminations.get(model.Status, Termination.FAILED)
    has_point = model.SolCount > 0
    has_bound = bool(model.IsMIP) or termination is Termination.FINISHED
    return Facts(
        termination=termination,
        has_point=has_point,
        value=float(model.ObjVal) if has_point else None,
        bound=_bound(model.ObjBound if model.IsMIP else model.ObjVal) if has_bound else None,
        nodes=int(model.NodeCount),
        message=f"status {model.Status}",
    )


def highs_facts(problem: Any) -> Facts:
    """Facts of the highspy object that PuLP leaves in ``problem.solverModel``."""
    from highspy import HighsModelStatus, kHighsInf

    run = problem.solverModel
    status, info = run.getModelStatus(), run.getInfo()
    terminations = {
        HighsModelStatus.kOptimal: Termination.FINISHED,
        HighsModelStatus.kInfeasible: Termination.INFEASIBLE,
        HighsModelStatus.kUnboundedOrInfeasible: Termination.INFEASIBLE,
        HighsModelStatus.kUnbounded: Termination.INFEASIBLE,
        HighsModelStatus.kTimeLimit: Termination.TIME_LIMIT,
        HighsModelStatus.kInterrupt: Termination.INTERRUPTED,
    }
    value = float(info.objective_function_value)
    has_point = run.getSolution().value_valid and abs(value) < kHighsInf
    is_mip = any(variable.cat == "Integer" for variable in problem.variables())
    return Facts(
        termination=terminations.get(status, Termination.FAILED),
        has_point=has_point,
        value=value if has_point else None,
        bound=_bound(info.mip_dual_bound) if is_mip else None,
        nodes=int(info.mip_node_count) if is_mip else None,
        message=run.modelStatusToString(status),
    )


def scip_facts(problem: Any) -> Facts:
    """Facts of the pyscipopt model that PuLP leaves in ``problem.solverModel``."""
    model = problem.solverModel
    status = str(model.getStatus())
    terminations = {
        "optimal": Termination.FINISHED,
        "gaplimit": Termination.FINISHED,
        "infeasible": Termination.INFEASIBLE,
        "inforunbd": Termination.INFEASIBLE,
        "unbounded": Termination.INFEASIBLE,
        "timelimit": Termination.TIME_LIMIT,
        "userinterrupt": Termination.INTERRUPTED,
    }
    has_point = model.getNSols() > 0
    return Facts(
        termination=terminations.get(status, Termination.FAILED),
        has_point=has_point,
        value=float(model.getObjVal()) if has_point else None,
        bound=_bound(model.getDualbound()),
        nodes=int(model.getNNodes()),
        message=status,
    )


FACTS: dict[str, Callable[[Any], Facts]] = {
    "GUROBI": gurobi_facts,
    "HiGHS": highs_facts,
    "SCIP_PY": scip_facts,
}


def _bound(value: float) -> float | None:
    """A solver's bound; None if it is one of the values that mean infinity."""
    return float(value) if math.isfinite(value) and abs(value) < 1e19 else None


def gurobi_callback(
    variables: list[Any], scaled: Scaled, watch: Watch, begin: float
) -> Callable[[Any, int], None]:
    """Callback that tells Gurobi's progress and passes on the wish to stop."""
    from gurobipy import GRB

    def callback(model: Any, where: int) -> None:
        if watch.stopping:
            model.terminate()
        if where == GRB.Callback.MIPSOL:
            found = model.cbGetSolution([variable.solverVar for variable in variables])
            point = scaled.point(np.array(found))
            value = model.cbGet(GRB.Callback.MIPSOL_OBJ)
            bound = model.cbGet(GRB.Callback.MIPSOL_OBJBND)
            nodes = model.cbGet(GRB.Callback.MIPSOL_NODCNT)
            point = np.where(scaled.milp.integer, np.rint(point), point)
            watch.tell(_progress(scaled, begin, value, bound, nodes, point))

    return callback


def _progress(
    scaled: Scaled, begin: float, value: float, bound: float, nodes: float, point: Any
) -> Progress:
    known = _bound(bound)
    return Progress(
        value=scaled.seconds(value),
        bound=None if known is None else scaled.seconds(known),
        wall_s=time.monotonic() - begin,
        nodes=int(nodes),
        point=point,
    )


def highs_callback(watch: Watch) -> dict[str, Any]:
    """Arguments that make PuLP's HiGHS ask ``watch`` whether to stop."""
    from highspy import cb

    def callback(kind: Any, message: str, out: Any, answer: Any, data: Any) -> None:
        answer.user_interrupt = watch.stopping

    kinds = cb.HighsCallbackType
    return {
        "callbackTuple": (callback, None),
        "callbacksToActivate": [
            kinds.kCallbackMipInterrupt,
            kinds.kCallbackSimplexInterrupt,
            kinds.kCallbackIpmInterrupt,
        ],
    }
