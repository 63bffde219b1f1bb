"""Any solver that PuLP finds, through PuLP's objects.

PuLP's own status calls a point at the time limit "Optimal" and it keeps no bound, so for the
solvers that leave their model object behind (Gurobi, HiGHS, SCIP) the facts are read from that.
For the others the termination is judged by the clock and no bound is reported. Gurobi and HiGHS
can be interrupted; the others run until they end. S. Mitchell and others, PuLP, COIN-OR.
"""

from __future__ import annotations

import inspect
import time
import warnings
from typing import Any

import numpy as np
import pulp

from optsched.errors import SolverError
from optsched.model.milp import FloatArray, Milp
from optsched.solvers.highs import highs_without_presolve
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from optsched.solvers.pulp_facts import FACTS, Facts, gurobi_callback, highs_callback
from optsched.solvers.scaling import Scaled, in_solver_units
from optsched.solvers.verify import Answer, settle
from optsched.solvers.watch import Watch

SHORTEST_S = 0.01  # PuLP takes a limit of zero for none


def pulp_solver(
    pulp_name: str, milp: Milp, options: SolverOptions, start: FloatArray | None = None
) -> Outcome:
    """Minimise ``milp`` with the solver that PuLP calls ``pulp_name``.

    Raises
    ------
    SolverError
        The solver is missing or fails (a licence, for instance), the program is unbounded,
        ``start`` is not feasible, or the answer is refuted.
    """

    def attempt(limits: SolverOptions) -> Answer:
        return _answer(pulp_name, milp, limits, start)

    def careful(limits: SolverOptions) -> Answer:
        return highs_without_presolve(milp, limits)

    name = f"{pulp_name} through PuLP {pulp.__version__}"
    return settle(milp, options, start, name, attempt, careful)


def _answer(pulp_name: str, milp: Milp, options: SolverOptions, start: FloatArray | None) -> Answer:
    scaled = in_solver_units(milp)
    if _an_empty_row_is_broken(scaled.milp):
        return Answer(termination=Termination.INFEASIBLE, message="a row without entries")
    if not milp.columns:
        return Answer(
            termination=Termination.FINISHED, point=np.zeros(0), bound=milp.offset, message="empty"
        )
    problem, variables = lp_problem(scaled.milp)
    if start is not None:
        for variable, value in zip(variables, scaled.start(start).tolist(), strict=True):
            variable.setInitialValue(value, check=False)
    watch = Watch(options)
    begin = time.monotonic()
    engine = _engine(pulp_name, options, watch, with_start=start is not None)
    arguments = {}
    if pulp_name == "GUROBI":
        arguments["callback"] = gurobi_callback(variables, scaled, watch, begin)
    try:
        watch.run(lambda: problem.solve(engine, **arguments))
        wall_s = time.monotonic() - begin
        facts = FACTS.get(pulp_name, _by_the_clock)(problem)
        values = [variable.varValue for variable in variables]
    except Exception as error:  # PuLP passes on whatever the solver's own interface raises
        raise SolverError(
            f"{pulp_name} through PuLP failed: {str(error).strip() or type(error).__name__}",
            hint="without licence some solvers refuse large models; highs has no such limit",
        ) from error
    finally:
        if hasattr(engine, "close"):
            engine.close()
    return _judge(scaled, options, facts, values, wall_s, interrupted=watch.stopping)


def _judge(
    scaled: Scaled,
    options: SolverOptions,
    facts: Facts,
    values: list[float | None],
    wall_s: float,
    *,
    interrupted: bool,
) -> Answer:
    point = None
    if facts.has_point and all(value is not None for value in values):
        point = scaled.point(np.array(values, dtype=np.float64))
    termination, limit = facts.termination, options.time_limit_s
    late = limit is not None and wall_s >= 0.95 * limit
    if termination is None:
        termination = Termination.TIME_LIMIT if late else Termination.FAILED
        if not late and point is not None:
            termination = Termination.FINISHED
    if interrupted and termination is Termination.FAILED:
        termination = Termination.INTERRUPTED
    return Answer(
        termination=termination,
        point=point,
        value=None if facts.value is None or point is None else scaled.seconds(facts.value),
        bound=None if facts.bound is None else scaled.seconds(facts.bound),
        nodes=facts.nodes,
        message=facts.message,
    )


def _by_the_clock(problem: pulp.LpProblem) -> Facts:
    """Facts of a solver of which only PuLP's status is known: no bound, no reason to stop."""
    claims_none = problem.sol_status in (
        pulp.constants.LpSolutionInfeasible,
        pulp.constants.LpSolutionUnbounded,
    )
    has_point = problem.sol_status in (
        pulp.constants.LpSolutionOptimal,
        pulp.constants.LpSolutionIntegerFeasible,
    )
    return Facts(
        termination=Termination.INFEASIBLE if claims_none else None,
        has_point=has_point,
        message=pulp.LpSolution[problem.sol_status],
    )


def lp_problem(milp: Milp) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """PuLP's object for ``milp`` and its variables in column order.

    Built from dictionaries, without operators. The offset is the cost of a column fixed at 1,
    because PuLP drops constants; a row with two different finite sides becomes two.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PuLP 3.3 announces the interface of PuLP 4
        problem = pulp.LpProblem("optsched", pulp.LpMinimize)
        variables = [
            pulp.LpVariable(f"c{j}", _finite(low), _finite(high), category)
            for j, (low, high, category) in enumerate(
                zip(
                    milp.lower.tolist(),
                    milp.upper.tolist(),
                    np.where(milp.integer, pulp.LpInteger, pulp.LpContinuous).tolist(),
                    strict=True,
                )
            )
        ]
        offset = pulp.LpVariable("offset", 1, 1)
        costs = dict(zip(variables, milp.cost.tolist(), strict=True))
        problem.setObjective(pulp.LpAffineExpression({**costs, offset: milp.offset}))
        _add_rows(problem, variables, milp)
    return problem, variables


def _add_rows(problem: pulp.LpProblem, variables: list[pulp.LpVariable], milp: Milp) -> None:
    matrix = milp.matrix()
    starts, values = matrix.starts.tolist(), matrix.values.tolist()
    columns = [variables[j] for j in matrix.columns.tolist()]
    for r, (low, high) in enumerate(zip(matrix.lower.tolist(), matrix.upper.tolist(), strict=True)):
        here = slice(starts[r], starts[r + 1])
        if starts[r] == starts[r + 1]:
            continue
        sides = [(low, pulp.LpConstraintGE), (high, pulp.LpConstraintLE)]
        if low == high:
            sides = [(low, pulp.LpConstraintEQ)]
        for side, sense in sides:
            if np.isfinite(side):
                terms = pulp.LpAffineExpression(dict(zip(columns[here], values[here], strict=True)))
                problem.addConstraint(pulp.LpConstraint(terms, sense, f"r{r}_{sense + 1}", side))


def _an_empty_row_is_broken(milp: Milp) -> bool:
    matrix = milp.matrix()
    empty = np.diff(matrix.starts) == 0
    return bool(np.any(empty & ((matrix.lower > 0) | (matrix.upper < 0))))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _engine(pulp_name: str, options: SolverOptions, watch: Watch, *, with_start: bool) -> Any:
    """PuLP's solver object with the options that it understands."""
    limit = options.time_limit_s
    wanted: dict[str, Any] = {
        "msg": False,
        "timeLimit": None if limit is None else max(limit, SHORTEST_S),
        "gapRel": options.relative_gap,
        "threads": options.threads,
        "warmStart": with_start,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solver_class = type(pulp.getSolver(pulp_name))
        known = inspect.signature(solver_class.__init__).parameters
        chosen = {name: value for name, value in wanted.items() if name in known}
        if pulp_name == "GUROBI":
            chosen |= {"Threads": options.threads, "Seed": options.seed, "manageEnv": True}
        elif pulp_name == "HiGHS":
            chosen |= {"random_seed": options.seed, **highs_callback(watch)}
        elif pulp_name == "SCIP_PY":
            chosen |= {"options": [f"randomization/randomseedshift={options.seed}"]}
        return solver_class(**chosen)
