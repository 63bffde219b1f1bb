"""``optsched verify`` as a user runs it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from optsched.bounds.certificate import certify
from optsched.bounds.clock import certify_clock, clock_bound
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import schema, write_certificate, write_instance
from optsched.objective import Objective
from tests.cli.command import optsched
from tests.tiny import LINEAR


@pytest.fixture
def instance() -> Instance:
    """Two requests, one of which arrives late and makes a call."""
    call = Call(after_tokens=2, duration_s=0.1, response_tokens=5)
    requests = (
        Request(id="a", prompt_tokens=8, output_tokens=4),
        Request(id="b", prompt_tokens=8, output_tokens=4, arrival_s=0.02, calls=(call,)),
    )
    limits = Limits(kv_tokens=24, batch_tokens=4096)
    return Instance(name="two", limits=limits, cost=LINEAR, requests=requests)


@pytest.fixture
def certificate(instance: Instance, tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    write_certificate(certify(instance), path)
    return path


def test_an_accepted_certificate_says_what_it_proves(instance: Instance, certificate: Path) -> None:
    ended = optsched("verify", certificate)
    assert ended.code == 0
    assert "two, 2 requests" in ended.out
    assert instance.digest in ended.out
    assert "every schedule" in ended.out
    assert "a pause holds or costs is left out" in ended.out
    assert "accepted" in ended.out.splitlines()[-1]


def test_json(instance: Instance, certificate: Path) -> None:
    ended = optsched("verify", certificate, "--json")
    told = json.loads(ended.out)
    assert told["accepted"] is True
    assert told["digest"] == instance.digest
    exact = Fraction(told["proven_exactly"])
    assert Fraction(told["claimed_s"]) <= exact
    assert 0 <= exact - Fraction(told["proven_s"]) < Fraction(1, 10**20)


def test_the_file_obeys_its_schema(certificate: Path) -> None:
    checker = jsonschema.Draft202012Validator(schema("certificate"))
    checker.validate(json.loads(certificate.read_text()))


def test_a_raised_claim_is_refuted(certificate: Path) -> None:
    tree = json.loads(certificate.read_text())
    tree["bound_s"] *= 1.001
    certificate.write_text(json.dumps(tree))
    ended = optsched("verify", certificate)
    assert ended.code == 3
    assert "refuted: the argument proves less than is claimed" in ended.out
    told = json.loads(optsched("verify", certificate, "--json").out)
    assert told["accepted"] is False
    assert "less than is claimed" in told["reason"]


def test_a_changed_instance_is_refuted(certificate: Path) -> None:
    tree = json.loads(certificate.read_text())
    tree["instance"]["limits"]["kv_tokens"] += 1
    certificate.write_text(json.dumps(tree))
    ended = optsched("verify", certificate)
    assert ended.code == 3
    assert "refuted: the certificate is for an instance with digest" in ended.out


def test_the_instance_on_the_command_line_must_be_the_same(
    instance: Instance, certificate: Path, tmp_path: Path
) -> None:
    path = tmp_path / "instance.json"
    write_instance(instance, path)
    assert optsched("verify", certificate, path).code == 0
    path.write_text(path.read_text().replace('"kv_tokens": 24', '"kv_tokens": 25'))
    ended = optsched("verify", certificate, path)
    assert ended.code == 3
    assert "refuted" in ended.out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"bound_s"', '"bound"', "unknown field `bound`"),
        ("optsched-certificate/1", "optsched-result/1", "expected 'optsched-certificate/1'"),
        ('"makespan"', '"median-latency"', "objective"),
        ('"output_tokens": 4', '"output_tokens": 0', "output_tokens"),
        ('"kv_tokens": 24,', '"kv_tokens": 24', "not valid JSON"),
    ],
)
def test_a_broken_file_is_an_error(certificate: Path, old: str, new: str, message: str) -> None:
    certificate.write_text(certificate.read_text().replace(old, new, 1))
    ended = optsched("verify", certificate)
    assert ended.code == 1
    assert message in ended.err
    assert not ended.out


@pytest.mark.parametrize(
    ("objective", "claim"),
    [
        (Objective.MEAN_LATENCY, "mean latency below"),
        (Objective.MEAN_TTFT, "mean time to first token below"),
        (Objective.MAX_LATENCY, "largest latency below"),
        (Objective.GOODPUT, "weight above"),
    ],
)
def test_objectives_of_the_clock(
    instance: Instance, tmp_path: Path, objective: Objective, claim: str
) -> None:
    path = tmp_path / "certificate.json"
    bound = clock_bound(instance, objective, effort="quick")
    write_certificate(certify_clock(instance, bound), path)
    ended = optsched("verify", path)
    assert ended.code == 0
    assert claim in ended.out
    told = json.loads(optsched("verify", path, "--json").out)
    assert (told["objective"], told["unit"]) == (objective.value, objective.unit)
    proven, shown = Fraction(told["proven_exactly"]), Fraction(told["proven_s"])
    assert shown >= proven if objective.maximised else shown <= proven
    tree = json.loads(path.read_text())
    tree["bound_s"] *= 0.99 if objective.maximised else 1.01
    path.write_text(json.dumps(tree))
    ended = optsched("verify", path)
    assert ended.code == 3
    assert "than is claimed" in ended.out


def test_an_argument_about_another_objective_is_refuted(certificate: Path) -> None:
    old = certificate.read_text()
    assert old.count('"makespan"') == 1
    certificate.write_text(old.replace('"makespan"', '"mean-ttft"'))
    ended = optsched("verify", certificate)
    assert ended.code == 3
    assert "says nothing about mean-ttft" in ended.out


def test_a_certificate_without_an_objective_is_about_the_makespan(certificate: Path) -> None:
    tree = json.loads(certificate.read_text())
    assert tree.pop("objective") == "makespan"
    certificate.write_text(json.dumps(tree))
    assert optsched("verify", certificate).code == 0


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    ended = optsched("verify", tmp_path / "none.json")
    assert ended.code == 1
    assert "no such file" in ended.err
