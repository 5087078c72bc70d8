"""The command that shows metrics of a running job."""

from __future__ import annotations

import fnmatch
import textwrap
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.command_line.cluster_client import (
    clients,
    cluster_options,
    find_job,
    print_json,
)
from penstock.command_line.flags import FlagCommand
from penstock.command_line.job_commands import table_of, tell
from penstock.common.calls.names import nearest_hint
from penstock.metrics.values import HISTOGRAM_FIGURES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.command_line.cluster_client import ClusterClient

_RATES: Final = ("numRecordsInPerSecond", "numRecordsOutPerSecond", "numBytesInPerSecond")
_SHARES: Final = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond")

#: The width of the lines of names.
_WIDTH: Final = 80
#: The number of ids in one request, so that its URL stays short.
_IDS_AT_ONCE: Final = 50


@click.command(cls=FlagCommand)
@click.argument("job")
@click.argument("names", nargs=-1)
@click.option("-l", "--list", "lists", is_flag=True, help="List the names by vertex.")
@cluster_options
def metrics(
    job: str,
    names: tuple[str, ...],
    lists: bool,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Show rates of JOB and the names of its metrics, or the metrics NAMES.

    Rates are by vertex, metrics by subtask; those of the whole job have neither.
    A name may be a pattern, such as 'numRecords*', and may begin with the number of a subtask:
    0.numRecordsIn, as in the REST interface.
    """
    client, found = find_job(clients(jobmanager, token), job)
    client.refresh_metrics(found)
    path = f"/jobs/{found['jid']}"
    vertices = client.ask(path)["vertices"]
    if lists or names:
        _show_chosen(client, path, vertices, names or ("*",), lists=lists, as_json=as_json)
        return
    rows = []
    for vertex in vertices:
        where = f"{path}/vertices/{vertex['id']}/subtasks/metrics"
        rates = client.ask(f"{where}?get={','.join(_RATES + _SHARES)}&agg=sum,max")
        by_name = {one["id"]: one for one in rates}
        row = {"vertex": vertex["name"], "parallelism": vertex["parallelism"]}
        row |= {name: _rounded(by_name.get(name), "sum") for name in _RATES}
        row |= {name: _rounded(by_name.get(name), "max") for name in _SHARES}
        rows.append({**row, "names": [one["id"] for one in client.ask(where)]})
    if as_json:
        print_json(rows)
        return
    known = {name for row in rows for name in row["names"]}
    known.update(one["id"] for one in client.ask(f"{path}/metrics"))
    click.echo(_rates_of(rows, known))


def _rates_of(rows: Sequence[Mapping[str, Any]], known: Collection[str]) -> str:
    """Return the rates of vertices and the names of metrics; a line has 80 columns at most."""
    names = ("vertex", "parallelism", *_RATES, *_SHARES)
    titles = ("vertex", "tasks", "in/s", "out/s", "bytes in/s", "busy", "pressed", "idle")
    figures = [
        [round(row[name]) if isinstance(row[name], float) else row[name] for name in names]
        for row in rows
    ]
    return (
        f"{table_of(titles, figures)}\n"
        "Rates are records and bytes, summed over the subtasks of a vertex.\n"
        "Times are ms per second, of the subtask with the most; pressed: back pressured.\n\n"
        "Names of metrics; add some to the command to see their values:\n"
        + textwrap.fill(
            ", ".join(_short_names(known)),
            _WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _short_names(names: Collection[str]) -> list[str]:
    """Return names in order, with one pattern in place of all values of a distribution."""
    first, *others = (f"_{figure}" for figure in HISTOGRAM_FIGURES)
    distributions = {
        start
        for name in names
        if (start := name.removesuffix(first)) != name
        and all(start + other in names for other in others)
    }
    parts = {f"{start}_{figure}" for start in distributions for figure in HISTOGRAM_FIGURES}
    return sorted({*names} - parts | {f"{start}_*" for start in distributions})


def _show_chosen(
    client: ClusterClient,
    path: str,
    vertices: Sequence[Mapping[str, Any]],
    patterns: Sequence[str],
    *,
    lists: bool,
    as_json: bool,
) -> None:
    """Show the metrics that match patterns.

    Raises:
        ClickException: A pattern matches no metric.
    """
    values: list[dict[str, Any]] = []
    chosen_by: set[str] = set()
    known: set[str] = set()
    owners: list[tuple[str | None, int | None, str]] = [(None, None, f"{path}/metrics")]
    owners += [
        (vertex["name"], index, f"{path}/vertices/{vertex['id']}/subtasks/{index}/metrics")
        for vertex in vertices
        for index in range(vertex["parallelism"])
    ]
    for vertex, subtask, where in owners:
        ids = sorted(one["id"] for one in client.ask(where))
        known.update(ids)
        chosen = []
        for name in ids:
            by = {p for p in patterns if _fits(p, name, subtask)}
            chosen_by |= by
            chosen += [name] if by else []
        about = {"vertex": vertex, "subtask": subtask}
        found = [{"id": name} for name in chosen] if lists else _values(client, where, chosen)
        values += [{**about, **one} for one in found]
    for pattern in patterns:
        if pattern not in chosen_by:
            hint = nearest_hint(pattern, known)
            raise click.ClickException(
                f"the job has no metric {pattern!r}{hint or '; --list shows all names'}"
            )
    if lists:
        rows = list(dict.fromkeys((value["vertex"], value["id"]) for value in values))
        listed = [{"vertex": vertex, "id": name} for vertex, name in rows]
        tell(as_json, listed, table_of(("vertex", "id"), rows))
        return
    columns = ("vertex", "subtask", "id", "value")
    tell(as_json, values, table_of(columns, [[v[c] for c in columns] for v in values]))


def _values(client: ClusterClient, where: str, names: Sequence[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start in range(0, len(names), _IDS_AT_ONCE):
        wanted = urllib.parse.quote(",".join(names[start : start + _IDS_AT_ONCE]))
        found += client.ask(f"{where}?get={wanted}")
    return found


def _fits(pattern: str, name: str, subtask: int | None) -> bool:
    """Return whether a pattern matches a metric; names may contain brackets.

    Args:
        pattern: A name or a pattern, of the metric or of its id in the REST interface.
        name: The metric.
        subtask: The subtask that has it; None if the job has it.
    """
    named = (name,) if subtask is None else (name, f"{subtask}.{name}")
    return pattern in named or any(fnmatch.fnmatchcase(each, pattern) for each in named)


def _rounded(found: Mapping[str, Any] | None, kind: str) -> float | None:
    return None if found is None else round(found[kind], 1)
