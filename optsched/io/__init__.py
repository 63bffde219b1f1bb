"""File formats and workload importers."""

from optsched.io.certificates import certificate_file, read_certificate, write_certificate
from optsched.io.files import require_writable
from optsched.io.instances import format_instance, parse_instance, read_instance, write_instance
from optsched.io.presets import preset, presets
from optsched.io.results import read_result, result_file, write_result
from optsched.io.schedules import (
    read_schedule,
    read_trace,
    schedule_file,
    trace_file,
    write_schedule,
    write_trace,
)
from optsched.io.schema import schema

__all__ = [
    "certificate_file",
    "format_instance",
    "parse_instance",
    "preset",
    "presets",
    "read_certificate",
    "read_instance",
    "read_result",
    "read_schedule",
    "read_trace",
    "require_writable",
    "result_file",
    "schedule_file",
    "schema",
    "trace_file",
    "write_certificate",
    "write_instance",
    "write_result",
    "write_schedule",
    "write_trace",
]
