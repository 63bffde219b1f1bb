"""``optsched verify``: does a certificate prove its bound?"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from optsched import io
from optsched.bounds.verify.describe import describe
from optsched.bounds.verify.verdict import Verdict
from optsched.bounds.verify.verdict import verify as check_claim
from optsched.certificate import Certificate
from optsched.cli.output import print_json
from optsched.objective import Objective

_ASSUMPTIONS = (
    "every schedule that the rules allow: evictions, chunked prefill, hybrid batches, swapping, "
    "holding, waiting and knowledge of the future; no policy is assumed"
)
_DIGITS = 20
_NAMES = {
    Objective.MAKESPAN: "makespan",
    Objective.MEAN_LATENCY: "mean latency",
    Objective.MEAN_TTFT: "mean time to first token",
    Objective.MAX_LATENCY: "largest latency",
}


@click.command(
    short_help="Check a certificate in exact arithmetic.",
    epilog="""\b
Examples:
  optsched bound hour.json --certificate hour.certificate.json
  optsched verify hour.certificate.json
  optsched verify hour.certificate.json hour.json
""",
)
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("instance", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.pass_context
def verify(ctx: click.Context, certificate: Path, instance: Path | None, as_json: bool) -> None:
    """Check CERTIFICATE from the instance that it holds, with whole numbers and fractions only.

    No solver, formulation or floating-point bound is used. With INSTANCE the certificate must also
    be about that one. Exit code 3 if it is refuted, 1 if the file is broken.
    """
    claim = io.read_certificate(certificate)
    other = None if instance is None else io.read_instance(instance).digest
    verdict = check_claim(claim, about=other)
    if as_json:
        print_json(_json(claim, verdict))
    else:
        _print(claim, verdict)
    ctx.exit(0 if verdict.accepted else 3)


def _print(claim: Certificate, verdict: Verdict) -> None:
    instance, proven = claim.instance, verdict.proven_s
    rows = [
        ("instance", f"{instance.name}, {len(instance)} requests"),
        ("digest", instance.digest),
        ("claim", _claim(claim)),
        ("holds for", _ASSUMPTIONS),
        *(("", limit) for limit in _limits(claim)),
        *(("", note) for note in _left_out(claim)),
        ("proof", claim.proof),
        *(("", line) for line in describe(claim.argument)),
    ]
    if proven is not None:
        rows.append(
            ("proven", f"{_decimal(claim, proven)} {claim.objective.unit}, {_size(proven)}")
        )
    rows.append(("verdict", "accepted" if verdict.accepted else f"refuted: {verdict.reason}"))
    for name, text in rows:
        click.echo(f"{name:<10}{text}")


def _claim(claim: Certificate) -> str:
    """What is claimed, in words."""
    if claim.objective is Objective.GOODPUT:
        return f"no schedule has requests of weight above {claim.bound_s!r} meet their objectives"
    return f"no schedule has a {_NAMES[claim.objective]} below {claim.bound_s!r} s"


def _limits(claim: Certificate) -> list[str]:
    """The side conditions of the claim, in words."""
    return [
        f"only with a {_NAMES[other]} of at most {limit!r} s"
        if other is not Objective.GOODPUT
        else f"only if requests of weight {limit!r} or more meet their objectives"
        for other, limit in claim.subject_to.items()
    ]


def _left_out(claim: Certificate) -> list[str]:
    if not claim.instance.has_calls:
        return []
    return ["calls: responses are processed and held; what a pause holds or costs is left out"]


def _json(claim: Certificate, verdict: Verdict) -> dict[str, Any]:
    proven = verdict.proven_s
    return {
        "format": "optsched-verdict/1",
        "accepted": verdict.accepted,
        "reason": verdict.reason,
        "instance": claim.instance.name,
        "digest": claim.instance.digest,
        "requests": len(claim.instance),
        "objective": claim.objective.value,
        "unit": claim.objective.unit,
        "subject_to": {other.value: limit for other, limit in claim.subject_to.items()},
        "assumptions": [_ASSUMPTIONS, *_limits(claim), *_left_out(claim)],
        "proof": claim.proof,
        "argument": describe(claim.argument),
        "claimed_s": verdict.claimed_s,
        "proven_s": None if proven is None else _decimal(claim, proven),
        "proven_exactly": None if proven is None else f"{proven.numerator}/{proven.denominator}",
    }


def _decimal(claim: Certificate, value: Fraction) -> str:
    """The first 20 decimals, rounded to the weaker side."""
    return decimal(value, up=claim.objective.maximised)


def decimal(value: Fraction, *, up: bool = False) -> str:
    """The first 20 decimals, cut so that it is never more than ``value``, or with ``up`` less."""
    scaled = value.numerator * 10**_DIGITS // value.denominator
    if up and scaled * value.denominator < value.numerator * 10**_DIGITS:
        scaled += 1
    whole, rest = divmod(abs(scaled), 10**_DIGITS)
    return f"{'-' if scaled < 0 else ''}{whole}.{rest:0{_DIGITS}d}"


def _size(value: Fraction) -> str:
    if value.denominator == 1:
        return "a whole number"
    top, bottom = value.numerator.bit_length(), value.denominator.bit_length()
    return f"a fraction of {top} over {bottom} bits"
