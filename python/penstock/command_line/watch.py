"""Live views in a terminal: one job with its vertices, and the busiest vertices of all jobs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.command_line.cluster_client import (
    UnreachableError,
    all_jobs,
    clients,
    cluster_options,
)
from penstock.command_line.flags import FlagCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from penstock.command_line.cluster_client import ClusterClient

TOP_S: Final = 2.0
_ENDED: Final = ("FINISHED", "CANCELED", "FAILED")


def show_live(views: Iterable[tuple[Any, RenderableType]], *, as_json: bool) -> None:
    """Show views in each other's place in a terminal, otherwise one below the other.

    Args:
        views: Pairs of data and its view.
        as_json: Whether to print the data instead, one line per view.
    """
    if as_json:
        for data, _ in views:
            click.echo(json.dumps(data))
        return
    rich = _rich()
    console = rich.console.Console()
    try:
        if not sys.stdout.isatty():
            for _, view in views:
                console.print(view)
            return
        with rich.live.Live(console=console, auto_refresh=False) as live:
            for _, view in views:
                live.update(view, refresh=True)
    except KeyboardInterrupt:
        return  # the user stops watching


def job_views(
    client: ClusterClient, job_id: str, names: dict[str, str]
) -> Iterator[tuple[Any, RenderableType]]:
    """Yield views of a job until it ends.

    Args:
        client: The client of its cluster.
        job_id: The id of the job.
        names: The names of its vertices by id.
    """
    for picture in client.pictures(job_id):
        job = picture.get("job")
        if job is not None:
            yield picture, _job_view(job, names, picture["now"])
            if job["state"] in _ENDED:
                return


def _job_view(job: dict[str, Any], names: dict[str, str], now_ms: int) -> RenderableType:
    rich = _rich()
    checkpoints = job["checkpoints"]
    last = checkpoints["last-duration"]
    title = (
        f"{job['name']} ({job['jid']}): {job['state']} for {job['duration'] / 1000:.0f} s, "
        f"{job['restarts']} restarts, {checkpoints['completed']} checkpoints"
        + (f" (the last took {last} ms)" if last is not None else "")
        + (f", {checkpoints['failed']} failed" if checkpoints["failed"] else "")
    )
    table = rich.table.Table(title=rich.text.Text(title), title_justify="left")
    table.add_column("vertex", overflow="fold")
    for column in ("state", "records/s in", "records/s out", "busy", "pressed", "skew", "behind"):
        table.add_column(column, justify="left" if column == "state" else "right")
    for vertex in job["vertices"]:
        table.add_row(
            rich.text.Text(names.get(vertex["id"], vertex["id"])),
            vertex["status"],
            _rate(vertex["in-rate"]),
            _rate(vertex["out-rate"]),
            _bar(vertex["busy"], "yellow"),
            _bar(vertex["back-pressured"], "red"),
            "-" if vertex["skew"] is None else f"{vertex['skew']:.0f} %",
            _behind(vertex["watermark"], now_ms),
        )
    return table  # type: ignore[no-any-return]


@click.command(cls=FlagCommand)
@click.option(
    "-n", "--lines", type=click.IntRange(1, 1000), default=30, help="Number of vertices to show."
)
@click.option("--once", is_flag=True, help="Print the table once and exit.")
@cluster_options
def top(lines: int, once: bool, jobmanager: str | None, token: str | None, as_json: bool) -> None:
    """Show the busiest vertices of all running jobs.

    Ctrl-C ends it.
    """

    def views() -> Iterator[tuple[Any, RenderableType]]:
        is_first = True
        while True:
            try:
                rows = _busiest(clients(jobmanager, token), lines)
            except UnreachableError:
                if is_first:
                    raise
                return  # the last job has ended
            yield rows, _top_view(rows)
            if once:
                return
            is_first = False
            time.sleep(TOP_S)

    show_live(views(), as_json=as_json)


def _busiest(found: list[ClusterClient], lines: int) -> list[dict[str, Any]]:
    rows = []
    for client, jobs in all_jobs(found):
        for job in jobs:
            if job["state"] in _ENDED:
                continue
            path = f"/jobs/{job['jid']}"
            names = {one["id"]: one["name"] for one in client.ask(path)["vertices"]}
            pictures = client.pictures(job["jid"])
            picture = next(pictures, None)
            pictures.close()  # type: ignore[attr-defined]
            vertices = (picture or {}).get("job", {}).get("vertices", ())
            rows += [
                {"job": job["name"], "name": names.get(vertex["id"], ""), **vertex}
                for vertex in vertices
            ]
    rows.sort(key=lambda row: -max(row["busy"] or 0, row["back-pressured"] or 0))
    return rows[:lines]


def _top_view(rows: list[dict[str, Any]]) -> RenderableType:
    rich = _rich()
    table = rich.table.Table()
    for column in ("job", "vertex", "busy", "pressed", "records/s in", "records/s out"):
        table.add_column(column, justify="left" if column in ("job", "vertex") else "right")
    for row in rows:
        table.add_row(
            rich.text.Text(row["job"]),
            rich.text.Text(row["name"]),
            _bar(row["busy"], "yellow"),
            _bar(row["back-pressured"], "red"),
            _rate(row["in-rate"]),
            _rate(row["out-rate"]),
        )
    return table  # type: ignore[no-any-return]


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _bar(value: float | None, color: str) -> Any:
    if value is None:
        return "-"
    filled = round(10 * min(1.0, value))
    text = _rich().text.Text("█" * filled, style=color)
    return text.append(f"{'·' * (10 - filled)} {value * 100:3.0f} %", style="default")


def _behind(watermark: int | None, now_ms: int) -> str:
    if watermark is None:
        return "-"
    behind_s = (now_ms - watermark) / 1000
    return f"{behind_s:.1f} s" if abs(behind_s) < 86_400 * 3650 else "end"


def _rich() -> Any:
    try:
        import rich
        import rich.console
        import rich.live
        import rich.table
        import rich.text
    except ImportError:
        raise click.ClickException(
            "a live view needs rich: pip install 'penstock-engine[cli]', or give --json"
        ) from None
    return rich
