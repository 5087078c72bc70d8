"""The process of the program itself: its interpreter, its module search path and its target."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import click

from penstock.common.options import user_code
from penstock.common.options.cluster import TARGET
from penstock.datastream.execution import TARGET_VARIABLE
from penstock.dependencies.declarations import PACKED_CODE, declared_files
from penstock.errors import ConfigurationError
from penstock.spark.configured import configured_spark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RUNS_UNDER: Final = "PENSTOCK_CLIENT_EXECUTABLE"
"""The variable by which a command that was started again recognises that."""


def run_under(executable: str, words: Sequence[str]) -> None:
    """Continue as the same command under another interpreter; return if this is that interpreter.

    Raises:
        UsageError: There is no such interpreter, or it lacks penstock.
    """
    if os.environ.pop(_RUNS_UNDER, None) == executable:
        return
    key = user_code.CLIENT_EXECUTABLE.key
    path = shutil.which(executable)
    if path is None:
        raise click.UsageError(f"{key}: there is no interpreter {executable!r}")
    if path == sys.executable:
        return
    probe = subprocess.run(
        [path, "-m", "penstock", "--version"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if probe.returncode != 0:
        raise click.UsageError(f"{key}: {path} has no penstock: install penstock-engine there")
    sys.stdout.flush()
    sys.stderr.flush()
    command = [path, "-m", "penstock", *words]
    os.execve(path, command, os.environ | {_RUNS_UNDER: executable})


def add_python_files(configuration: Mapping[str, str]) -> None:
    """Put the program's Python files first on the module search path of this process.

    Raises:
        UsageError: One of them does not exist, or cannot be imported.
    """
    found: list[str] = []
    try:
        for path in declared_files(configuration):
            if path.is_dir():
                # As on workers: a folder's content, and a package by its own name.
                found += [str(path.parent)] if (path / "__init__.py").is_file() else []
                found.append(str(path))
            else:
                found.append(str(path if path.name.endswith(PACKED_CODE) else path.parent))
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    sys.path[:0] = found


def choose_target(
    configuration: Mapping[str, str], *, master: str | None, cluster: str | None
) -> str | None:
    """Return the target of the program's jobs; print it on standard error if it was not named.

    None stands for the local target, unless the program has a SparkSession when it runs a job.

    Args:
        configuration: The options that are configured outside the program.
        master: The Spark master that the command line names.
        cluster: The session that the command line names.

    Raises:
        UsageError: The command line names settings of another target.
    """
    named = configuration.get(TARGET.key) or os.environ.get(TARGET_VARIABLE) or None
    implied = "session" if cluster is not None else None
    implied = "spark" if master is not None else implied
    if master is not None and cluster is not None:
        raise click.UsageError("--master is for target spark, and --cluster for target session")
    try:
        chosen = (TARGET.parse(named) if named else None) or implied
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if implied is not None and chosen != implied:
        flag = "--master" if master is not None else "--cluster"
        raise click.UsageError(f"{flag} is for target {implied}; the target is {chosen}")
    if chosen is None:
        where = configured_spark(configuration, os.environ)
        chosen = None if where is None else "spark"
        click.echo(
            "penstock: target local, as no Spark is configured (--target names another)"
            if where is None
            else f"penstock: target spark, as {where} configures one (--target names another)",
            err=True,
        )
    if chosen is not None:
        os.environ.setdefault(TARGET_VARIABLE, chosen)
    return chosen
