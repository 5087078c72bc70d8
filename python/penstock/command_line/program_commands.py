"""Commands that show the plan of a program or run it in the background."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import get_completion_class

from penstock.command_line.cluster_client import ClusterClient, UnreachableError, print_json
from penstock.command_line.flags import FlagCommand
from penstock.command_line.program_flags import ProgramCommand, program_flags
from penstock.common.job_listener import JobListener
from penstock.common.options import rest
from penstock.common.options.cluster import TARGET
from penstock.errors import ConfigurationError
from penstock.rest.requirement import require_rest
from penstock.rest.run_files import RunningCluster, running_clusters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.common.job_client import JobClient

START_TIMEOUT_S: Final = 300.0
MAX_LOG_CHARACTERS: Final = 4000


class PlannedError(BaseException):
    """Raised instead of running the job: the program has been planned."""


@click.command(
    "run-application",
    cls=ProgramCommand,
    context_settings={"allow_interspersed_args": False},
)
@program_flags
@click.option("--json", "as_json", is_flag=True, help="Print the job as JSON.")
@click.pass_context
def run_application(context: click.Context, /, as_json: bool, **given: Any) -> None:
    """Run PROGRAM in the background: Flink 1's name of run -d."""
    from penstock.command_line.main import run

    context.invoke(run, as_json=as_json, **given | {"detached": True})


@click.command(cls=ProgramCommand, context_settings={"allow_interspersed_args": False})
@program_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON for Flink's plan viewer.")
@click.pass_context
def info(context: click.Context, /, as_json: bool, **given: Any) -> None:
    """Show the plan of PROGRAM's first job.

    The program runs until it would start the job. All flags of run are accepted; the target has
    no effect.
    """
    from penstock.command_line.main import run
    from penstock.datastream import StreamExecutionEnvironment

    found: list[str] = []

    def planned(env: StreamExecutionEnvironment, *_: Any) -> Any:
        found.append(env.get_execution_plan() if as_json else env.explain())
        raise PlannedError

    original = StreamExecutionEnvironment._start
    StreamExecutionEnvironment._start = planned  # type: ignore[method-assign,assignment]
    try:
        elsewhere = {"target": "local", "cluster": None, "master": None, "detached": False}
        options = tuple(one for one in given["options"] if not one.startswith(f"{TARGET.key}="))
        context.invoke(run, **given | elsewhere | {"options": options})
    except PlannedError:
        pass
    finally:
        StreamExecutionEnvironment._start = original  # type: ignore[method-assign]
    if not found:
        raise click.ClickException("the program runs no job")
    click.echo(json.dumps(json.loads(found[0]), indent=2) if as_json else found[0])


def detach(arguments: Sequence[str], options: dict[str, str], *, as_json: bool) -> None:
    """Run a program in a separate process, and return when its job has started.

    Args:
        arguments: The arguments of ``penstock run``, without ``-d``.
        options: The options that are already set.
        as_json: Whether to print JSON.

    Raises:
        ClickException: The program ended before it ran a job; the message has its output.
    """
    extra: list[str] = []
    if not rest.PORT.is_set(options):
        try:
            require_rest("-d has the REST interface on")
        except ConfigurationError as error:
            raise click.ClickException(str(error)) from None
        extra = ["-D", f"{rest.PORT.key}=0"]
    descriptor, log = tempfile.mkstemp(prefix="penstock-run-", suffix=".log")
    # Not a Popen: this process does not wait for it, and it outlives this process.
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "penstock", "run", *extra, *arguments],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, descriptor, 1),
            (os.POSIX_SPAWN_DUP2, descriptor, 2),
        ],
        setsid=True,
    )
    os.close(descriptor)
    if not as_json:
        click.echo(f"Process {pid}, log {log}")
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        own = [one for one in running_clusters() if one.pid == pid]
        job = _first_job(own[0]) if own else None
        if job is not None:
            if as_json:
                dashboard = own[0].dashboard
                print_json({"job": job["jid"], "pid": pid, "log": log, "dashboard": dashboard})
                return
            _tell_job(job["jid"], own[0].dashboard)
            return
        if ended:
            text = Path(log).read_text("utf-8", "replace")[-MAX_LOG_CHARACTERS:]
            if status:
                code = os.waitstatus_to_exitcode(status)
                raise click.ClickException(f"the program ended with code {code}:\n{text}")
            if as_json:
                print_json({"job": None, "pid": pid, "log": log})
                return
            click.echo(f"The program has ended already.\n{text}", nl=False)
            return
        time.sleep(0.1)
    raise click.ClickException(f"no job after {START_TIMEOUT_S:.0f} s; the program runs on: {log}")


class SessionJobTeller(JobListener):
    """Prints the id and the dashboard of each job that the program sends to its session.

    Args:
        configuration: The options of the program.
    """

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = configuration

    def on_job_submitted(self, job_client: JobClient | None, error: BaseException | None) -> None:
        """Print a job that was submitted."""
        del error
        if job_client is None:
            return
        from penstock.session.finding import find_by_options

        pid = find_by_options(self._configuration).pid
        own = [one.dashboard for one in running_clusters() if one.pid == pid and pid is not None]
        _tell_job(str(job_client.get_job_id()), own[0] if own else None)


def _tell_job(job_id: str, dashboard: str | None) -> None:
    click.echo(f"Job has been submitted with JobID {job_id}")
    if dashboard is not None:  # else the session is on another machine
        click.echo(f"Dashboard: {dashboard}")
    click.echo(f"penstock status --watch {job_id[:8]}")


def _first_job(cluster: RunningCluster) -> dict[str, Any] | None:
    try:
        jobs = ClusterClient(cluster.url, cluster.token, cluster.certificates).ask("/jobs/overview")
    except UnreachableError:
        return None
    found: list[dict[str, Any]] = jobs["jobs"]
    return found[0] if found else None


@click.command(cls=FlagCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def completion(shell: str, as_json: bool) -> None:
    """Print a completion script for SHELL.

    Use it as: eval "$(penstock completion bash)".
    """
    from penstock.command_line.main import main

    made = get_completion_class(shell)
    assert made is not None, "click has all three"
    script = made(main, {}, "penstock", "_PENSTOCK_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
