"""Where the published traces are that some tests read; they are not part of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def _needed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs {path.name}, expected at {path}")
    return path


def azure_trace() -> Path:
    """The Azure conversation hour of 2023."""
    return _needed(DATA / "azure_llm_2023" / "AzureLLMInferenceTrace_conv.csv")


def vidur_traces() -> Path:
    """The folder of Vidur's processed traces."""
    return _needed(DATA / "vidur_traces")


def infercept_workload() -> Path:
    """The table of segments of the INFERCEPT workload."""
    return _needed(DATA / "infercept_mars_api" / "infercept_api_workload.csv")


def highs_regressions() -> Path:
    """The folder of models that a HiGHS release gets wrong."""
    return _needed(DATA / "highs_regressions")
