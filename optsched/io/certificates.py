"""Certificates as files, each with the whole instance in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from optsched.certificate import Certificate
from optsched.errors import InvalidInputError
from optsched.io.decode import decode
from optsched.io.files import read_bytes, write_text
from optsched.io.instances import format_instance, parse_instance
from optsched.io.layout import to_json
from optsched.io.wire import CertificateFile, InstanceFile
from optsched.objective import Objective


def certificate_file(certificate: Certificate) -> CertificateFile:
    """File form of a certificate; coefficients are spelt out, whatever a preset means later."""
    instance = certificate.instance
    cost = msgspec.structs.replace(instance.cost, preset=None)
    text = format_instance(msgspec.structs.replace(instance, cost=cost))
    return CertificateFile(
        format="optsched-certificate/1",
        digest=certificate.digest,
        objective=certificate.objective.value,
        bound_s=certificate.bound_s,
        proof=certificate.proof,
        argument=certificate.argument,
        instance=msgspec.json.decode(text, type=InstanceFile),
        subject_to={other.value: limit for other, limit in certificate.subject_to.items()},
    )


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Write a certificate; raises :class:`InvalidInputError` when the file cannot be written."""
    write_text(Path(path), to_json(certificate_file(certificate)))


def read_certificate(path: str | Path) -> Certificate:
    """Certificate in the file at ``path``; nothing of it is verified.

    Raises
    ------
    InvalidInputError
        The file cannot be read or breaks the format; the message has the JSON path.
    """
    path = Path(path)
    wire = decode(read_bytes(path), CertificateFile, str(path))
    instance = parse_instance(msgspec.json.encode(wire.instance), f"{path}: instance")
    try:
        return Certificate(
            instance=instance, digest=wire.digest, bound_s=wire.bound_s, proof=wire.proof,
            argument=wire.argument, objective=Objective(wire.objective),
            subject_to={Objective(other): limit for other, limit in wire.subject_to.items()},
        )  # fmt: skip
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error.message}", hint=error.hint) from None
