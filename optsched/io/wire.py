"""The file formats as they stand in JSON; JSON Schemas are made from these.

Unknown keys are refused everywhere. Times are seconds, sizes tokens, batches count from 1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from optsched.certificate import Argument
from optsched.handling import HandledCall
from optsched.instance import Call, Limits, Request
from optsched.result import Conflict, Step, Target, Tie

Name = Annotated[str, Meta(min_length=1)]
ObjectiveName = Literal["makespan", "mean-latency", "mean-ttft", "max-latency", "goodput"]
KindLabel = Literal["process", "evict", "swap_out", "swap_in"]


class CostField(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Either the name of a preset, or coefficients (then ``pieces`` is required)."""

    preset: str | None = None
    pieces: list[tuple[float, float]] | None = None
    d0: float | None = None
    d_kv: float | None = None
    d_req: float | None = None
    p0: float | None = None
    p_sq: float | None = None
    p_mc: float | None = None
    p_kv: float | None = None
    p_req: float | None = None
    swap_tok: float | None = None


class RequestColumns(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Requests of a large workload as equally long arrays; ids default to r0, r1, ..."""

    prompt_tokens: list[int]
    output_tokens: list[int]
    id: list[str] | None = None
    arrival_s: list[float] | None = None
    calls: list[list[Call]] | None = None
    ttft_slo_s: list[float | None] | None = None
    tpot_slo_s: list[float | None] | None = None
    latency_slo_s: list[float | None] | None = None
    weight: list[float] | None = None


class InstanceFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload, the machine's limits and its batch-time law."""

    format: Literal["optsched-instance/1"]
    name: Name
    limits: Limits
    cost: CostField
    requests: list[Request] | RequestColumns


class RunColumns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs in columns; ``request`` holds the ids of the instance's requests."""

    request: list[str]
    kind: list[KindLabel]
    first_batch: list[int]
    batches: list[int]
    tokens: list[int]


class WaitColumns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Batches that may not start before a time, although they could."""

    batch: list[int]
    not_before_s: list[float]


class ScheduleFile(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Decisions only, as runs."""

    format: Literal["optsched-schedule/1"]
    runs: RunColumns
    instance: str | None = None
    digest: str | None = None
    scheduler: str | None = None
    waits: WaitColumns | None = None


class BatchTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start and end of every batch."""

    start_s: list[float]
    end_s: list[float]


class RequestTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Per request: end of the batches that generate its first and last token (null if none)."""

    id: list[str]
    first_token_s: list[float | None]
    finish_s: list[float | None]
    pause_s: list[float]


class TraceFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Times of one execution of a schedule."""

    format: Literal["optsched-trace/1"]
    source: Literal["simulated", "measured"]
    batches: BatchTimes
    requests: RequestTimes
    instance: str | None = None
    digest: str | None = None


class ResultFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``optsched solve`` found and proved."""

    format: Literal["optsched-result/1"]
    instance: str
    digest: str
    objective: str
    value: float | None
    bound: float | None
    gap: float | None
    proof: str | None
    scope: str
    policies: list[str]
    termination: str
    wall_s: float
    formulation: str | None
    reason: str | None
    solver: str | None
    found_by: str | None
    options: dict[str, Any]
    versions: dict[str, str]
    steps: list[Step]
    schedule: ScheduleFile | None
    target: Target | None = None
    conflict: Conflict | None = None
    tie: Tie | None = None
    handling: list[HandledCall] = []


class CertificateFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claimed bound on an objective, the instance it is about, and what proves it.

    ``bound_s`` is in seconds, for goodput in weight; the objective is the makespan if not given. It
    holds for the schedules within the limits ``subject_to``.
    """

    format: Literal["optsched-certificate/1"]
    digest: str
    objective: ObjectiveName = "makespan"
    bound_s: float
    proof: str
    argument: Argument
    instance: InstanceFile
    subject_to: dict[ObjectiveName, float] = {}


FORMATS: dict[str, type[Struct]] = {
    "instance": InstanceFile,
    "schedule": ScheduleFile,
    "trace": TraceFile,
    "result": ResultFile,
    "certificate": CertificateFile,
}
