"""The state of problem.md section 2 of every request, and where its changes are written down."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from optsched.check.history import (
    Evictions,
    History,
    Holds,
    Moves,
    Resumptions,
    Rows,
    Splits,
    Steps,
    Swaps,
)
from optsched.check.milestones import Milestones
from optsched.check.violation import Findings
from optsched.instance import Instance

IntArray = NDArray[np.int64]


@dataclass
class State:
    """The requests' state, one entry each, those with the most runs first; changed in place."""

    request: IntArray  # position in the instance
    prompt: IntArray  # I
    output: IntArray  # O
    known: IntArray  # s
    cached: IntArray  # m
    host: IntArray  # w
    generated: IntArray  # g
    milestone: IntArray  # position of the next call, or of the end
    goal: IntArray  # output tokens that reach it
    free: IntArray  # first batch that its runs so far leave free
    free_process: IntArray  # the same for a process run, which may follow a swap in
    processed: IntArray  # first batch after those that processed it, or 0
    called: IntArray  # position of the call made and not resumed from, or -1
    called_batch: IntArray  # the batch that made it
    handling: IntArray  # what its KV met with since, a position in HANDLINGS
    filling: IntArray  # 1 between the first and the last chunk of a fill

    def head(self, count: int) -> State:
        """Views of the first ``count`` entries."""
        return State(*(getattr(self, field.name)[:count] for field in fields(self)))


def initial_state(instance: Instance, marks: Milestones, order: IntArray) -> State:
    """Every request before batch 1."""
    zeros = np.zeros((7, order.size), dtype=np.int64)
    return State(
        request=order,
        prompt=instance.prompt_tokens[order],
        output=instance.output_tokens[order],
        known=instance.prompt_tokens[order],
        cached=zeros[0],
        host=zeros[1],
        generated=zeros[2],
        milestone=marks.first[order],
        goal=marks.after[marks.first[order]],
        free=np.ones(order.size, dtype=np.int64),
        free_process=np.ones(order.size, dtype=np.int64),
        processed=zeros[5],
        called=np.full(order.size, -1, dtype=np.int64),
        called_batch=zeros[3],
        handling=zeros[6],
        filling=zeros[4],
    )


class Log:
    """Where a round writes what happened."""

    def __init__(self, marks: Milestones, findings: Findings) -> None:
        self.marks = marks
        self.first_token = np.zeros(marks.first.size, dtype=np.int64)
        self.findings = findings
        self.steps = Rows(6)
        self.moves = Rows(4)
        self.evictions = Rows(3)
        self.swaps = Rows(3)
        self.splits = Rows(3)
        self.resumptions = Rows(5)
        self.holds = Rows(5)
        self.gaps = Rows(5)

    def move(self, batch: IntArray, gpu: IntArray, host: IntArray, later: int = 0) -> None:
        """KV comes or goes, in tokens; see :class:`Moves`."""
        self.moves.add(batch, gpu, host, np.full(batch.size, later))

    def history(self) -> History:
        """All that was written."""
        return History(
            steps=Steps(*self.steps.columns()),
            moves=Moves(*self.moves.columns()),
            evictions=Evictions(*self.evictions.columns()),
            swaps=Swaps(*self.swaps.columns()),
            splits=Splits(*self.splits.columns()),
            resumptions=Resumptions(*self.resumptions.columns()),
            holds=Holds(*self.holds.columns()),
            gaps=Holds(*self.gaps.columns()),
            first_token=self.first_token,
        )
