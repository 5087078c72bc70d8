"""``penstock sql``: an interactive shell for SQL, and scripts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.command_line.client_process import add_python_files
from penstock.command_line.flags import FlagCommand
from penstock.command_line.program_flags import check_configuration, place_flags, place_of
from penstock.common.options.cluster import ATTACHED
from penstock.datastream.execution import CONFIGURATION_VARIABLE

if TYPE_CHECKING:
    from penstock.table.shell.shell import SqlShell


@click.command(cls=FlagCommand)
@place_flags
@click.option(
    "-d",
    "--detached",
    is_flag=True,
    help="In a session, do not wait for the jobs of INSERT statements.",
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Run the statements of a file, - for standard input, and exit.",
)
@click.option(
    "-e",
    "--execute",
    "texts",
    metavar="STATEMENTS",
    multiple=True,
    help="Run these statements and exit.",
)
@click.option("-i", "--init", "first", metavar="FILE", help="Run the statements of a file first.")
def sql(files: tuple[str, ...], texts: tuple[str, ...], first: str | None, **given: Any) -> None:
    """Run SQL, interactively or as a script.

    A script comes from -f FILE, -e STATEMENTS or a pipe.
    A script ends at its first failing statement, or when the jobs of its INSERT statements have
    ended.
    """
    _configure(given)
    scripts = [(name, _script(name)) for name in files] + [("-e", text) for text in texts]
    if not scripts and not sys.stdin.isatty():
        scripts = [("standard input", sys.stdin.read())]
    initial = [] if first is None else [(first, _script(first))]
    shell = _shell(is_chatty=not scripts)
    for name, text in initial + scripts:
        _run_script(shell, name, text)
        if shell.has_quit:
            break
    if not scripts:
        from penstock.table.shell.interactive import run_interactively

        click.echo("penstock's SQL: HELP; lists the statements, QUIT; ends.", err=True)
        run_interactively(shell)
    if not given["detached"]:
        _wait(shell)


def _configure(given: dict[str, Any]) -> None:
    """Add the options of the command line to the configuration of this process."""
    given |= {"jarfile": None, "classpath": (), "client_executable": None}
    configuration, outside, chosen = place_of(given)
    if given["detached"]:
        if chosen != "session":
            raise click.UsageError(
                f"-d is for target session: on target {chosen or 'local'} jobs end with this "
                "command"
            )
        configuration[ATTACHED.key] = "false"
    check_configuration(configuration)
    os.environ[CONFIGURATION_VARIABLE] = json.dumps(configuration)
    add_python_files(outside)
    sys.path.insert(0, str(Path.cwd()))


def _script(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot read {name}: {error}") from None


def _shell(*, is_chatty: bool) -> SqlShell:
    from penstock.errors import DependencyError
    from penstock.table import EnvironmentSettings, TableEnvironment

    try:
        from penstock.table.shell.shell import SqlShell
    except ImportError as error:
        raise click.ClickException(
            f"SQL needs packages that are missing: pip install 'penstock-engine[table]' ({error})"
        ) from None
    try:
        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    except DependencyError as error:
        raise click.ClickException(str(error)) from None
    return SqlShell(environment, write=click.echo, is_chatty=is_chatty)


def _run_script(shell: SqlShell, name: str, text: str) -> None:
    """Run a script; the first failing statement ends the command with 1."""
    from penstock.table.exceptions import SqlParserException
    from penstock.table.shell.interactive import told
    from penstock.table.shell.shell import StatementError

    try:
        shell.run_script(text)
    except StatementError as failed:
        shell.cancel_jobs()
        if isinstance(failed.error, BrokenPipeError):  # of `| head`; click ends quietly
            raise failed.error from None
        click.echo(
            f"{name}, line {failed.statement.line}: {told(failed, is_verbose=shell.is_verbose)}",
            err=True,
        )
        sys.exit(1)
    except SqlParserException as error:
        shell.cancel_jobs()
        click.echo(f"{name}: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        shell.cancel_jobs()
        raise


def _wait(shell: SqlShell) -> None:
    """Wait for the jobs of insertions; a failed one ends the command with 1."""
    running = shell.running_jobs()
    if running and sys.stdin.isatty():
        click.echo(f"Waiting for jobs; Ctrl-C cancels them: {', '.join(running)}", err=True)
    try:
        shell.wait_for_jobs()
    except KeyboardInterrupt:
        shell.cancel_jobs()
        raise
    except Exception as error:
        shell.cancel_jobs()
        click.echo(f"[ERROR] {type(error).__name__}: {error}", err=True)
        sys.exit(1)
