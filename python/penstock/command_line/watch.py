"""Live views in a terminal: one job with its vertices, and the busiest vertices of all jobs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.command_line.cluster_client import (
    ENDED,
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

#: An input that is further ahead has ended.
_CENTURY_S: Final = 100 * 365 * 86_400


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
            if job["state"] in ENDED:
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
    table = _table(["vertex"], ["in/s", "out/s", "busy", "pressed", "skew", "behind", "state"])
    table.title, table.title_justify = rich.text.Text(title), "left"
    for vertex in job["vertices"]:
        table.add_row(
            _name(names.get(vertex["id"], vertex["id"])),
            _rate(vertex["in-rate"]),
            _rate(vertex["out-rate"]),
            _share(vertex["busy"], "yellow"),
            _share(vertex["back-pressured"], "red"),
            "-" if vertex["skew"] is None else f"{vertex['skew']:.0f} %",
            _behind(vertex["watermark"], now_ms),
            vertex["status"],
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
                rows = _busiest(clients(jobmanager, token), lines, are_fresh=not is_first)
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


def _busiest(found: list[ClusterClient], lines: int, *, are_fresh: bool) -> list[dict[str, Any]]:
    """Return the figures of the busiest vertices.

    Args:
        found: The clusters.
        lines: The number of vertices.
        are_fresh: Whether a former call has requested metrics; each call does so for the next.
    """
    rows = []
    for client, jobs in all_jobs(found):
        running = [job for job in jobs if job["state"] not in ENDED]
        if running and not are_fresh:
            client.refresh_metrics(running[0])
        for job in running:
            path = f"/jobs/{job['jid']}"
            names = {one["id"]: one["name"] for one in client.ask(path)["vertices"]}
            with contextlib.closing(client.pictures(job["jid"])) as pictures:
                picture = next(pictures, None)
            vertices = (picture or {}).get("job", {}).get("vertices", ())
            rows += [
                {"job": job["name"], "name": names.get(vertex["id"], ""), **vertex}
                for vertex in vertices
            ]
    rows.sort(key=lambda row: -max(row["busy"] or 0, row["back-pressured"] or 0))
    return rows[:lines]


def _top_view(rows: list[dict[str, Any]]) -> RenderableType:
    table = _table(["job", "vertex"], ["busy", "pressed", "in/s", "out/s"])
    for row in rows:
        table.add_row(
            _name(row["job"]),
            _name(row["name"]),
            _share(row["busy"], "yellow"),
            _share(row["back-pressured"], "red"),
            _rate(row["in-rate"]),
            _rate(row["out-rate"]),
        )
    return table  # type: ignore[no-any-return]


def _table(names: list[str], figures: list[str]) -> Any:
    """Return an empty table with a line for each row: where space is short, names are cut."""
    rich = _rich()
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in names:
        table.add_column(name)
    for figure in figures:
        table.add_column(figure, no_wrap=True, justify="left" if figure == "state" else "right")
    return table


def _name(text: str) -> Any:
    return _rich().text.Text(text, no_wrap=True, overflow="ellipsis")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _share(value: float | None, color: str) -> Any:
    if value is None:
        return "-"
    return _rich().text.Text(f"{value * 100:.0f} %", style=color if value >= 0.5 else "")


def _behind(watermark: int | None, now_ms: int) -> str:
    if watermark is None:
        return "-"
    behind_s = (now_ms - watermark) / 1000
    if abs(behind_s) >= _CENTURY_S:
        return "end"
    for unit, size_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(behind_s) >= 2 * size_s:
            return f"{behind_s / size_s:,.0f} {unit}"
    return f"{behind_s:.1f} s"


def _rich() -> Any:
    try:
        import rich
        import rich.box
        import rich.console
        import rich.live
        import rich.table
        import rich.text
    except ImportError:
        raise click.ClickException(
            "a live view needs rich: pip install 'penstock-engine[cli]', or give --json"
        ) from None
    return rich
