"""Importers: the published layouts are read, everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.io.importers import import_trace
from tests.traces import azure_trace, vidur_traces

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2225670,14000,55
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n"
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
"""
ARXIV = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n"


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_azure(tmp_path: Path) -> None:
    instance, left_out = import_trace(
        "azure", file(tmp_path, AZURE), preset_name="llama3-70b-4xa100"
    )
    assert [r.arrival_s for r in instance.requests] == [0.0, 4.314579, 4.541977]
    assert instance.prompt_tokens.tolist() == [374, 396, 14000]
    assert instance.output_tokens.tolist() == [44, 109, 55]
    assert (instance.limits.kv_tokens, instance.limits.batch_tokens) == (100_000, 16_384)
    assert instance.name == "trace"
    assert not left_out


def test_limit_and_offline(tmp_path: Path) -> None:
    instance, _ = import_trace(
        "azure", file(tmp_path, AZURE), preset_name="study", limit=2, offline=True
    )
    assert len(instance) == 2
    assert instance.offline


def test_vidur_with_and_without_arrivals(tmp_path: Path) -> None:
    instance, _ = import_trace("vidur", file(tmp_path, VIDUR), preset_name="study")
    assert [r.arrival_s for r in instance.requests] == [0.0, 4.314579]
    instance, _ = import_trace("vidur", file(tmp_path, ARXIV), preset_name="study")
    assert instance.offline
    assert instance.prompt_tokens.tolist() == [3772]


def test_mooncake(tmp_path: Path) -> None:
    instance, _ = import_trace("mooncake", file(tmp_path, MOONCAKE), preset_name="study")
    assert [r.arrival_s for r in instance.requests] == [0.0, 3.0]
    assert instance.prompt_tokens.tolist() == [6758, 7322]
    assert instance.output_tokens.tolist() == [500, 490]


def test_oversized_requests_are_named_and_left_out_only_when_asked(tmp_path: Path) -> None:
    path = file(tmp_path, AZURE)
    with pytest.raises(InvalidInputError, match=r"1 of 3 requests .* r2"):
        import_trace("azure", path, preset_name="study", kv_tokens=5000)
    instance, left_out = import_trace(
        "azure", path, preset_name="study", kv_tokens=5000, leave_out_oversized=True
    )
    assert left_out == ["r2"]
    assert len(instance) == 2


@pytest.mark.parametrize(
    ("layout", "text", "what"),
    [
        ("vidur", AZURE, "columns are TIMESTAMP"),
        ("azure", VIDUR, "columns are arrived_at"),
        ("azure", "", "columns are missing"),
        ("azure", AZURE.splitlines()[0] + "\n", "at least one request"),
        ("azure", AZURE.replace("374", "many"), "line 2: ContextTokens: got 'many'"),
        ("azure", AZURE.replace(",44", ",0"), "line 2: GeneratedTokens: got '0'"),
        ("azure", AZURE.replace("2023-11-16 18:15:46", "yesterday"), "TIMESTAMP"),
        ("azure", AZURE + "2023-11-16 18:15:51.2225670,3\n", "line 5"),
        ("azure", AZURE + "\n2023-11-16 18:15:51.2225670,3\n", "line 6"),
        ("azure", AZURE.replace(",374,", ',"374,'), "line 4: unexpected end of data"),
        ("azure", AZURE.replace("374", "3" * 200_000), "field larger than field limit"),
        ("vidur", ARXIV.replace("3826", "3827"), "line 2: num_total_tokens: got '3827'"),
        ("vidur", ARXIV.replace("3826", ""), "line 2: num_total_tokens: got ''"),
        ("vidur", VIDUR.replace("4.314579", "4_3"), "line 3: arrived_at"),
        ("vidur", VIDUR.replace("4.314579", "1e999"), "line 3: arrived_at"),
        ("vidur", VIDUR.replace("4.314579", " 4"), "line 3: arrived_at"),
        ("mooncake", "[" * 100_000 + "]" * 100_000, "line 1"),
        ("mooncake", MOONCAKE.replace("7322", "10000001"), "line 2: input_length: got 10000001"),
        ("vidur", VIDUR.replace("4.314579", "-1"), "line 3: arrived_at"),
        ("vidur", VIDUR.replace("4.314579", "nan"), "line 3: arrived_at"),
        ("mooncake", VIDUR, "line 1"),
        ("mooncake", MOONCAKE.replace("7322", "0"), "line 2: input_length: got 0"),
        ("mooncake", MOONCAKE.replace("output_length", "outputs"), "line 1"),
    ],
)
def test_refused(tmp_path: Path, layout: str, text: str, what: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        import_trace(layout, file(tmp_path, text), preset_name="study")
    assert what in str(caught.value)


FIRST = "2023-11-16 18:15:46.6805900"


@pytest.mark.parametrize(
    "stamp",
    [
        "", "NaT", "now", "today", "2023", "2023-11-16", "2023-11-16T18:15:46", FIRST + "Z",
        FIRST + "+00:00", FIRST + "000", FIRST[:20], " " + FIRST, FIRST + " ", FIRST[:16],
        "-" + FIRST, "0000-11-16 18:15:46", "2023-13-16 18:15:46", "2023-02-29 18:15:46",
        "2023-11-16 24:00:00", "2023-11-16 18:60:46", "2023-11-16 18:15:60",
        "２023-11-16 18:15:46", "12023-11-16 18:15:46",
    ],
)  # fmt: skip
def test_only_the_published_time_stamps_are_taken(tmp_path: Path, stamp: str) -> None:
    with pytest.raises(InvalidInputError, match="line 2: TIMESTAMP: got"):
        import_trace("azure", file(tmp_path, AZURE.replace(FIRST, stamp)), preset_name="study")


def test_time_stamps_far_apart_and_with_few_digits(tmp_path: Path) -> None:
    text = f"{AZURE.splitlines()[0]}\n0001-01-01 00:00:00,1,1\n9999-12-31 23:59:59.5,1,1\n"
    instance, _ = import_trace("azure", file(tmp_path, text), preset_name="study")
    assert [r.arrival_s for r in instance.requests] == [0.0, 315_537_897_599.5]


@pytest.mark.parametrize("count", ["3_74", "+374", "-374", " 374", "374 ", "374.0", "３74", "٣", "",
                                   "1e3", "10000001", "9" * 5000])  # fmt: skip
def test_counts_are_plain_digits(tmp_path: Path, count: str) -> None:
    with pytest.raises(InvalidInputError, match="line 2: ContextTokens: got"):
        import_trace(
            "azure", file(tmp_path, AZURE.replace(",374,", f",{count},")), preset_name="study"
        )


def test_unknown_layout_and_preset(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean azure"):
        import_trace("azur", file(tmp_path, AZURE), preset_name="study")
    with pytest.raises(UnknownNameError, match="did you mean study"):
        import_trace("azure", file(tmp_path, AZURE), preset_name="studdy")


def test_the_real_traces() -> None:
    azure, _ = import_trace("azure", azure_trace(), preset_name="llama3-70b-4xa100")
    vidur, _ = import_trace(
        "vidur", vidur_traces() / "splitwise_conv.csv", preset_name="llama3-70b-4xa100"
    )
    # The figures of the trace's own README: rows, total input and output tokens.
    assert len(azure) == 19_366
    assert int(azure.prompt_tokens.sum()) == 22_361_870
    assert int(azure.output_tokens.sum()) == 4_088_665
    assert azure.prompt_tokens.tolist() == vidur.prompt_tokens.tolist()
    assert azure.output_tokens.tolist() == vidur.output_tokens.tolist()
