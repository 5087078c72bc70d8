"""Commands about running jobs: Flink's verbs and option names, and a few more."""

from __future__ import annotations

import datetime
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.command_line.cluster_client import (
    ENDED,
    all_jobs,
    clients,
    cluster_options,
    find_job,
    print_json,
)
from penstock.command_line.flags import FlagCommand, refused_flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The least width of the first column of a table in a terminal.
_MIN_WIDTH: Final = 12
_SCHEDULED = ("INITIALIZING", "CREATED")
_FORMAT = click.option(
    "-type",
    "--type",
    "written",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    default="canonical",
    help="Format of the savepoint.",
)
_DETACHED = click.option(
    "-detached",
    "--detached",
    "detached",
    is_flag=True,
    help="Print the trigger's id, and do not wait for the savepoint.",
)


@click.command("list", cls=FlagCommand)
@click.option("-a", "--all", "every", is_flag=True, help="List ended jobs, too.")
@click.option("-r", "--running", is_flag=True, help="List running jobs only.")
@click.option("-s", "--scheduled", is_flag=True, help="List scheduled jobs only.")
@cluster_options
def list_jobs(
    every: bool,
    running: bool,
    scheduled: bool,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """List running and scheduled jobs."""
    found = [
        {**job, "url": client.url}
        for client, jobs in all_jobs(clients(jobmanager, token))
        for job in jobs
    ]
    kinds = {
        "Running/Restarting": [j for j in found if j["state"] not in (*_SCHEDULED, *ENDED)],
        "Scheduled": [j for j in found if j["state"] in _SCHEDULED],
        "Terminated": [j for j in found if j["state"] in ENDED],
    }
    if not every:
        del kinds["Terminated"]
        if running != scheduled:
            del kinds["Scheduled" if running else "Running/Restarting"]
    if as_json:
        print_json([job for jobs in kinds.values() for job in jobs])
        return
    for kind, jobs in kinds.items():
        click.echo(f"------------------ {kind} Jobs -------------------")
        for job in jobs:
            click.echo(
                f"{_when(job['start-time'])} : {job['jid']} : {job['name']} ({job['state']})"
            )
        if not jobs:
            click.echo(f"No {kind.lower()} jobs.")


@click.command(cls=FlagCommand)
@click.argument("job")
@click.option("-w", "--watch", is_flag=True, help="Update the view until the job ends.")
@cluster_options
def status(job: str, watch: bool, jobmanager: str | None, token: str | None, as_json: bool) -> None:
    """Show the state of JOB.

    Prints its vertices, its last checkpoint and its last failure.
    """
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}"
    if watch:
        detail = client.ask(path)
        from penstock.command_line.watch import job_views, show_live

        names = {vertex["id"]: vertex["name"] for vertex in detail["vertices"]}
        show_live(job_views(client, found["jid"], names), as_json=as_json)
        return
    client.refresh_metrics(found)
    detail = client.ask(path)
    checkpoints = client.ask(f"{path}/checkpoints")
    failures = client.ask(f"{path}/exceptions?maxExceptions=1")["exceptionHistory"]["entries"]
    if as_json:
        print_json({"job": detail, "checkpoints": checkpoints, "exceptions": failures})
        return
    click.echo(f"{detail['name']} ({detail['jid']}): {detail['state']}")
    click.echo(f"started {_when(detail['start-time'])}, for {detail['duration'] / 1000:.1f} s")
    click.echo(
        table_of(
            ("vertex", "parallelism", "state", "records in", "records out"),
            [
                (
                    vertex["name"],
                    vertex["parallelism"],
                    vertex["status"],
                    vertex["metrics"]["read-records"],
                    vertex["metrics"]["write-records"],
                )
                for vertex in detail["vertices"]
            ],
        )
    )
    counts, last = checkpoints["counts"], checkpoints["latest"]["completed"]
    if counts["total"]:
        click.echo(f"checkpoints: {counts['completed']} completed, {counts['failed']} failed")
    if last is not None:
        click.echo(
            f"last checkpoint: {last['id']} at {_when(last['trigger_timestamp'])}, "
            f"{last['state_size']} bytes in {last['end_to_end_duration']} ms"
        )
        click.echo(f"  {last['external_path']}")
    for failure in failures:
        where = f" in {failure['taskName']}" if failure["taskName"] else ""
        click.echo(f"last failure: {_when(failure['timestamp'])}{where}: {_told_by(failure)}")
        repeated = failure["failureLabels"].get("repeated")
        if repeated:
            click.echo(f"the job {repeated}")


@click.command(cls=FlagCommand)
@click.argument("job", required=False)
@click.option(
    "-s",
    "--withSavepoint",
    "savepoint",
    is_flag=False,
    flag_value="",
    metavar="[DIRECTORY]",
    help="Take a savepoint first; deprecated in Flink: use stop.",
)
@cluster_options
def cancel(
    job: str | None, savepoint: str | None, jobmanager: str | None, token: str | None, as_json: bool
) -> None:
    """Cancel JOB."""
    if job is None:
        # As in Flink: in `cancel -s JOB` the job is in the directory's place.
        job, savepoint = savepoint, ""
    if not job:
        raise click.UsageError("Missing argument 'JOB'.")
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}"
    if savepoint is None:
        client.ask(f"{path}?mode=cancel", "PATCH")
        tell(as_json, {"job": found["jid"]}, f"Cancelled job {found['jid']}.")
        return
    body = {"cancel-job": True, **({"target-directory": savepoint} if savepoint else {})}
    trigger = client.ask(f"{path}/savepoints", "POST", body)["request-id"]
    location = client.outcome(f"{path}/savepoints", trigger)["location"]
    text = f"Cancelled job {found['jid']}. Savepoint stored in {location}."
    tell(as_json, {"job": found["jid"], "savepoint": location}, text)


@click.command(cls=FlagCommand)
@click.argument("job")
@click.option(
    "-d", "--drain", is_flag=True, help="First end event time, so that all windows and timers fire."
)
@click.option(
    "-p",
    "--savepointPath",
    "directory",
    metavar="DIRECTORY",
    help="Directory of the savepoint.",
)
@_FORMAT
@_DETACHED
@cluster_options
def stop(
    job: str,
    drain: bool,
    directory: str | None,
    written: str,
    detached: bool,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Stop JOB with a savepoint.

    A later job can start from it.
    """
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}"
    body: dict[str, Any] = {"drain": drain, "formatType": written.upper()}
    if directory is not None:
        body["targetDirectory"] = directory
    trigger = client.ask(f"{path}/stop", "POST", body)["request-id"]
    if detached:
        _tell_trigger(as_json, found["jid"], trigger)
        return
    location = client.outcome(f"{path}/savepoints", trigger)["location"]
    tell(
        as_json,
        {"job": found["jid"], "savepoint": location},
        f"Savepoint completed. Path: {location}",
    )


@click.command(cls=FlagCommand)
@click.argument("job", required=False)
@click.argument("directory", required=False)
@click.option("--dispose", metavar="PATH", help="Delete that savepoint instead.")
@refused_flag("-d", why="deleting a savepoint asks for the whole name: --dispose PATH")
@click.option("-j", "--jarfile", metavar="FILE", help="Accepted for Flink; has no effect.")
@_FORMAT
@_DETACHED
@cluster_options
def trigger(
    job: str | None,
    directory: str | None,
    dispose: str | None,
    jarfile: str | None,
    written: str,
    detached: bool,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Take a savepoint of JOB, which keeps running.

    DIRECTORY defaults to the job's option execution.checkpointing.savepoint-dir.
    With --dispose, JOB is accepted, as on Flink's pages, but not needed.
    """
    if jarfile is not None:
        click.echo(f"--jarfile {jarfile}: has no effect, no code is needed", err=True)
    if dispose is not None:
        if directory is not None or detached:
            raise click.UsageError("--dispose deletes a savepoint and cannot take one")
        from penstock.command_line.savepoint_commands import dispose as delete

        click.get_current_context().invoke(delete, path=dispose, options=())
        return
    if job is None:
        raise click.UsageError("Missing argument 'JOB'.")
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}/savepoints"
    body: dict[str, Any] = {"formatType": written.upper()}
    if directory is not None:
        body["target-directory"] = directory
    request = client.ask(path, "POST", body)["request-id"]
    if detached:
        _tell_trigger(as_json, found["jid"], request)
        return
    location = client.outcome(path, request)["location"]
    tell(
        as_json,
        {"job": found["jid"], "savepoint": location},
        f"Savepoint completed. Path: {location}",
    )


@click.command(cls=FlagCommand)
@click.argument("job")
@click.option(
    "-p", "--parallelism", type=click.IntRange(min=1), required=True, help="The new parallelism."
)
@cluster_options
def rescale(
    job: str, parallelism: int, jobmanager: str | None, token: str | None, as_json: bool
) -> None:
    """Change the parallelism of JOB.

    The job restarts from a checkpoint that is taken now.
    """
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}"
    trigger = client.ask(f"{path}/rescaling?parallelism={parallelism}", "PATCH")["request-id"]
    client.outcome(f"{path}/rescaling", trigger)
    present = {vertex["name"]: vertex["parallelism"] for vertex in client.ask(path)["vertices"]}
    text = f"Rescaled job {found['jid']} to {parallelism}."
    if parallelism not in present.values():
        # An adaptive job, which gets the slots for more later, or never.
        text = (
            f"Job {found['jid']} may have parallelism {parallelism} now; it continues with "
            f"{max(present.values())} until there are slots for more."
        )
    told = {"job": found["jid"], "parallelism": parallelism, "vertices": present}
    tell(as_json, told, text)


@click.command(cls=FlagCommand)
@click.argument("job")
@click.option(
    "-full", "--full", is_flag=True, help="Store all state, even if checkpoints are incremental."
)
@cluster_options
def checkpoint(
    job: str, full: bool, jobmanager: str | None, token: str | None, as_json: bool
) -> None:
    """Take a checkpoint of JOB now."""
    client, found = find_job(clients(jobmanager, token), job)
    path = f"/jobs/{found['jid']}/checkpoints"
    body = {"checkpointType": "FULL" if full else "CONFIGURED"}
    request = client.ask(path, "POST", body)["request-id"]
    number = client.outcome(path, request)["checkpointId"]
    tell(
        as_json,
        {"job": found["jid"], "checkpoint": number},
        f"Checkpoint completed. Checkpoint ID: {number}",
    )


def _told_by(failure: Mapping[str, str]) -> str:
    """Return the first line of an exception's message; further lines and notes may follow it."""
    lines = failure["stacktrace"].strip().splitlines()
    name = failure["exceptionName"].rpartition(".")[2]
    begins = re.compile(rf"(\w+\.)*{re.escape(name)}(:|$)")
    return next((line for line in reversed(lines) if begins.match(line)), lines[-1])


def tell(as_json: bool, value: Any, text: str) -> None:
    """Print a value as JSON, or a description of it as text."""
    if as_json:
        print_json(value)
    else:
        click.echo(text)


def _tell_trigger(as_json: bool, job_id: str, trigger_id: str) -> None:
    text = f"Savepoint triggered. triggerId: {trigger_id}"
    tell(as_json, {"job": job_id, "triggerId": trigger_id}, text)


def _when(wall_ms: int) -> str:
    return datetime.datetime.fromtimestamp(wall_ms / 1000).strftime("%d.%m.%Y %H:%M:%S")


def table_of(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows with titles as aligned columns.

    In a terminal, texts of the first column are cut so that a row fits into a line.
    """
    cells = [list(titles), *([("-" if c is None else str(c)) for c in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    if sys.stdout.isatty():
        excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        widths[0] = min(widths[0], max(widths[0] - excess, _MIN_WIDTH))
        for row in cells:
            if len(row[0]) > widths[0]:
                row[0] = f"{row[0][: widths[0] - 1]}…"
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
