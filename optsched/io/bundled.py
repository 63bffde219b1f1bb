"""The instance that ships inside the package."""

from __future__ import annotations

from importlib import resources

from optsched.instance import Instance
from optsched.io.instances import parse_instance


def default_instance() -> Instance:
    """1,000 requests like those of the Azure conversation hour, at its rate of arrivals.

    Made by ``optsched generate azure-like``; a file, because a generator's stream may change with
    the version of numpy.
    """
    name = "azure-like-1000.json"
    return parse_instance(resources.files("optsched.data").joinpath(name).read_bytes(), name)
