"""Instances as files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from optsched.cost import CostModel
from optsched.errors import InvalidInputError, UnknownNameError, require
from optsched.instance import Instance, Request
from optsched.io.decode import decode
from optsched.io.files import read_bytes, write_text
from optsched.io.layout import to_json
from optsched.io.presets import preset, presets
from optsched.io.wire import CostField, InstanceFile, RequestColumns

_COLUMNS_FROM = 64  # requests: from here on a file holds columns instead of objects


def read_instance(path: str | Path) -> Instance:
    """Instance in the file at ``path``.

    Raises
    ------
    InvalidInputError
        The file cannot be read or breaks the format; the message has the JSON path.
    """
    path = Path(path)
    return parse_instance(read_bytes(path), str(path))


def parse_instance(text: bytes, source: str) -> Instance:
    """Instance from JSON text; ``source`` names it in errors."""
    wire = decode(text, InstanceFile, source)
    try:
        requests = wire.requests
        if isinstance(requests, RequestColumns):
            requests = _rows(requests)
        return Instance(
            name=wire.name, limits=wire.limits, cost=_cost(wire.cost), requests=tuple(requests)
        )
    except (InvalidInputError, UnknownNameError) as error:
        raise InvalidInputError(f"{source}: {error.message}", hint=error.hint) from None


def write_instance(instance: Instance, path: str | Path) -> None:
    """Write ``instance``; raises :class:`InvalidInputError` when the file cannot be written."""
    write_text(Path(path), format_instance(instance))


def format_instance(instance: Instance) -> str:
    """JSON text of an instance: a list of objects if it is small, columns if it is large."""
    large = len(instance) >= _COLUMNS_FROM
    return to_json(
        InstanceFile(
            format="optsched-instance/1",
            name=instance.name,
            limits=instance.limits,
            cost=_cost_field(instance.cost),
            requests=_columns(instance) if large else list(instance.requests),
        )
    )


def _cost(field: CostField) -> CostModel:
    given = {k: v for k, v in msgspec.structs.asdict(field).items() if v is not None}
    if field.preset is not None:
        others = sorted(set(given) - {"preset"})
        require(not others, "cost", others, "either a preset or coefficients, not both")
        return preset(field.preset).cost
    require(
        field.pieces is not None, "cost", given, "a preset or at least pieces",
        hint='for example {"preset": "study"}; `optsched presets` lists them',
    )  # fmt: skip
    return CostModel(**{**given, "pieces": tuple(field.pieces or ())})


def _cost_field(cost: CostModel) -> CostField:
    known = presets().get(cost.preset) if cost.preset else None
    if known is not None and known.cost == cost:
        return CostField(preset=cost.preset)
    coefficients = msgspec.structs.asdict(cost)
    del coefficients["preset"]
    return CostField(**{**coefficients, "pieces": list(cost.pieces)})


def _columns(instance: Instance) -> RequestColumns:
    defaults = {"arrival_s": 0.0, "calls": (), "weight": 1.0}
    columns: dict[str, list[object]] = {}
    for name in RequestColumns.__struct_fields__:
        column = [getattr(request, name) for request in instance.requests]
        if name in ("prompt_tokens", "output_tokens") or any(
            value != defaults.get(name) for value in column
        ):
            columns[name] = column
    if columns["id"] == [f"r{i}" for i in range(len(instance))]:
        del columns["id"]
    return RequestColumns(**columns)  # type: ignore[arg-type]


def _rows(columns: RequestColumns) -> list[Request]:
    count = len(columns.prompt_tokens)
    given = {k: v for k, v in msgspec.structs.asdict(columns).items() if v is not None}
    given.setdefault("id", [f"r{i}" for i in range(count)])
    for name, column in given.items():
        require(
            len(column) == count, f"requests.{name}", len(column),
            f"{count} entries, as in prompt_tokens",
        )  # fmt: skip
    names = list(given)
    return [
        Request(**dict(zip(names, row, strict=True))) for row in zip(*given.values(), strict=True)
    ]
