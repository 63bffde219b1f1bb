"""Cost presets: coefficients fitted to real GPUs, with their provenance, shipped in the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from optsched.cost import CostModel
from optsched.errors import UnknownNameError


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cost model with the limits and the provenance that go with it.

    ``error`` is the mean / largest relative error per batch of the fit, ``source`` the profile
    that it was fitted on.
    """

    name: str
    cost: CostModel
    batch_tokens: int
    kv_tokens: int
    error: str
    source: str
    pieces_note: str = ""


@cache
def presets() -> dict[str, Preset]:
    """All presets by name, in the order of the data file."""
    text = resources.files("optsched.data").joinpath("cost_presets.json").read_bytes()
    table = msgspec.json.decode(text)["presets"]
    loaded = {}
    for name, row in table.items():
        about = {key: row.pop(key) for key in ("batch_tokens", "kv_tokens", "error", "source")}
        note = row.pop("pieces_note", "")
        cost = msgspec.convert({**row, "preset": name}, CostModel)
        loaded[name] = Preset(name=name, cost=cost, pieces_note=note, **about)
    return loaded


def preset(name: str) -> Preset:
    """The preset called ``name``; raises :class:`UnknownNameError` with the nearest names."""
    if name not in presets():
        raise UnknownNameError("cost preset", name, presets())
    return presets()[name]
