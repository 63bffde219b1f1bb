"""Strengthening: a request's own steps and its calls take their time one after another."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.durations import attention_terms, lines, need_clock
from optsched.constraints.compact.rows import Term, batches_for_sums, join, only, rows, up_to
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import UNTIL_FINISH
from optsched.model.milp import Block, IntArray

NAME = "pause_bounds"


def pause_bounds(instance: Instance, v: CompactVariables) -> Block:
    """With t_i what a step takes at least, alpha (d + p) + beta c + own attention for every affine
    piece, the set-up of any batch included; u, r = made, resumed; D how long each call takes:

    - by the end of a batch j, a request that arrives at T, with a as in ``arrival``, has spent
      end_j >= T a_j + sum_{j' <= j} t_i + sum D r_j;
    - after the end of a batch j, it still needs
      end - end_j >= sum_{j' > j} t_i + sum D (1 - u_j);
    - until it is finished, T + sum t_i + sum D.

    Only of requests with calls, at some of the batches if the horizon is long.
    """
    if not v.strengthened or not len(v.calls):
        return join(NAME, [])
    return join(NAME, [
        block for i in np.unique(v.calls.request).tolist() for block in _of_request(v, i)
    ])  # fmt: skip


def _of_request(v: CompactVariables, i: int) -> list[Block]:
    clock, J = need_clock(v), v.batches
    release, k = float(clock.release_s[i]) / clock.unit_s, int(clock.class_of[i])
    mine = np.flatnonzero(v.calls.request == i)
    pause = v.calls.duration_s[mine] / clock.unit_s
    made, resumed = v["made"][mine], v["resumed"][mine]
    blocks = []
    for alpha, beta in lines(v):
        step: list[Term] = [(v[name][i], -alpha) for name in ("decodes", "prefills")]
        step.append((v["tokens"][i], -beta))
        step += [(index[i], x) for index, x in attention_terms(v, -1, swaps=False)]
        last = batches_for_sums(J, len(step) + 2)
        spent: list[Term] = [(up_to(index[None], last), x) for index, x in step]
        arrived: list[Term] = [(v["arrived"][k][last], -release)] if release else []
        left: list[Term] = [(_after(index, last), x) for index, x in step]
        blocks.append(rows(
            NAME, last.shape, (v["end"][last + 1], 1), (resumed[:, last + 1].T, -pause), *spent,
            *arrived, lower=0,
        ))  # fmt: skip
        end = np.broadcast_to(v["end"][-1], last.shape)
        behind = np.where(last + 1 < J, v["end"][last + 1], -1)
        blocks.append(rows(
            NAME, last.shape, (only(end, last + 1 < J), 1), (behind, -1),
            (only(made[:, last + 1].T, (last + 1 < J)[:, None]), pause), *left,
            lower=np.where(last + 1 < J, pause.sum(), 0.0),
        ))  # fmt: skip
        if UNTIL_FINISH in v and v[UNTIL_FINISH][i, 0] >= 0:
            total: list[Term] = [(index[None], x) for index, x in step]
            blocks.append(
                rows(NAME, (1,), (v[UNTIL_FINISH][i][None], 1), *total, lower=release + pause.sum())
            )
    return blocks


def _after(index: IntArray, last: IntArray) -> IntArray:
    """``(batches,)`` as ``(last.size, batches)``: the entries after each of ``last``."""
    after = np.arange(index.size) > last[:, None]
    return np.where(after, index, -1)
