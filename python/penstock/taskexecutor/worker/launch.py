"""The one JSON line that a TaskExecutor process reads from its standard input.

Standard input is private to parent and child: the token appears neither in the process list nor in
the environment that user code's own subprocesses inherit.
"""

from __future__ import annotations

import json
import sys
from typing import BinaryIO, Final

import msgspec

from penstock.common.values.decoders import converter
from penstock.errors import ConfigurationError
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.job_credentials import JobCredentials  # noqa: TC001 (msgspec looks it up)

MAX_LAUNCH_BYTES = 16 * 1024 * 1024

EXIT_FAILED = 1
"""Exit code of a worker whose start failed; its log says why."""

EXIT_LOST_DRIVER = 3
"""Exit code of a worker that lost its driver, or that is beyond repair."""


class LaunchSpec(msgspec.Struct, frozen=True):
    """Address of the driver and settings of the process.

    Attributes:
        driver: host and port of the driver's rpc server.
        token: the token for the driver's port, in hexadecimal.
        control_certificate: the control plane's certificate and key (DER, in hexadecimal), if
            connections to the driver are encrypted.
        jobs: the credentials that workers of each job show each other, by job id in hexadecimal,
            for each job that this worker may serve.
        config: the cluster's options, and the default values of the jobs' options.
        epoch: incarnation of this executor id; an older one is refused at registration.
        log_levels: levels of loggers by name, "" for the root, as in the driver's program.
        sys_path: entries to append to ``sys.path``, so that job code finds the driver's modules.
        temp_dirs: where temporary directories may be created; the system's default if empty.
        program_path: the folder of the program's own modules; first on ``sys.path``, as in the
            program itself.
        cached_files: paths of the job's cached files by name.
        job_folder: the folder on this host that the job's workers share, if there is one.
        as_pyflink: whether ``import pyflink`` means penstock.
        metrics_interval_ms: interval of metric reports; 0 to report only on request.
        forwards_printed_text: whether ``print()`` writes to the driver's streams.
    """

    driver: tuple[str, int]
    token: str
    executor_id: str
    slots: int
    bind_host: str = "127.0.0.1"
    runtime: str = "native"
    jobs: dict[str, JobCredentials] = {}
    epoch: int = 0
    config: dict[str, str] = {}
    log_levels: dict[str, int] = {}
    sys_path: tuple[str, ...] = ()
    temp_dirs: tuple[str, ...] = ()
    control_certificate: tuple[str, str] | None = None
    program_path: str | None = None
    cached_files: dict[str, str] = {}
    job_folder: str | None = None
    as_pyflink: bool = False
    metrics_interval_ms: int = 0
    forwards_printed_text: bool = False

    def encode(self) -> bytes:
        """Return the line, newline included."""
        return msgspec.json.encode(self) + b"\n"

    @property
    def credentials(self) -> ControlCredentials:
        """Return this worker's credentials for the driver."""
        return ControlCredentials.of_launch(msgspec.structs.asdict(self))


launch_spec_of: Final = converter(LaunchSpec)
"""Converts the dictionary form of `LaunchSpec.encode` to a specification."""


def read_launch_spec(stream: BinaryIO) -> LaunchSpec:
    """Read the launch line.

    Raises:
        ConfigurationError: the line is missing, too long or malformed; the message names the field.
    """
    line = stream.readline(MAX_LAUNCH_BYTES)
    if not line.endswith(b"\n"):
        raise ConfigurationError(
            "a TaskExecutor is started by its driver, with one line of JSON on standard input; "
            f"got {len(line)} bytes without an end of line"
        )
    try:
        # Not by msgspec: a path that is not UTF-8 has lone surrogates, which it rejects.
        return launch_spec_of(json.loads(line))
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigurationError(f"the launch line is not valid: {error}") from None


def extend_sys_path(entries: tuple[str, ...], program_path: str | None = None) -> None:
    """Put the program's folder first and append the rest of the driver's module search path.

    Between them are the modules shipped for the job and this interpreter's own.
    """
    if program_path is not None:
        sys.path.insert(0, program_path)
    known = set(sys.path)
    sys.path.extend(entry for entry in entries if entry not in known)
