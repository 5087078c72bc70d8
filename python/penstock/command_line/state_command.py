"""``penstock state``: read keyed state of a running job or a savepoint, by key or as a scan."""

from __future__ import annotations

import base64
import json
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.command_line.cluster_client import clients, cluster_options, find_job, print_json
from penstock.command_line.flags import FlagCommand
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.command_line.cluster_client import ClusterClient
    from penstock.state_processor.reader import Savepoint

_BATCH_ROWS: Final = 5000


@click.command(cls=FlagCommand)
@click.argument("words", nargs=-1, metavar="[JOB] OPERATOR [STATE [KEY]]")
@click.option("-s", "--savepoint", metavar="PATH", help="Read a savepoint instead of a JOB.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Another key; repeatable.")
@click.option("--scan", is_flag=True, help="Show all entries, as without a KEY.")
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help='Show entries that meet a condition, such as "value.price > 3"; repeatable.',
)
@click.option(
    "--limit", type=click.IntRange(1), default=1000, help="Show at most this many entries."
)
@click.option(
    "--checkpoint", is_flag=True, help="Scan the last complete checkpoint, not live state."
)
@cluster_options
def state(
    words: tuple[str, ...],
    savepoint: str | None,
    keys: tuple[str, ...],
    scan: bool,
    where: tuple[str, ...],
    limit: int,
    checkpoint: bool,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Read keyed state of JOB or of a savepoint.

    Looks up a KEY in a STATE, shows all entries of the STATE, or lists the states of OPERATOR.
    OPERATOR is a uid, id or name.  KEY is a Python literal, such as 7 or "(1, 'a')", or a string.
    A scan reads live state, one task after the other, or a checkpoint or savepoint.
    """
    named, words = (words[:1], words[1:]) if savepoint is None else ((), words)
    if (savepoint is None and not named) or not 1 <= len(words) <= 3:
        raise click.UsageError("name the JOB (or -s PATH), the OPERATOR, then a STATE and a KEY")
    operator, name, key = (*words, "", "")[:3]
    wanted = tuple(one for one in (key, *keys) if one)
    scan = scan or bool(where) or checkpoint or (name != "" and not wanted)
    if scan and (wanted or not name):
        raise click.UsageError("a scan takes an OPERATOR and a STATE, and no KEY")
    if wanted and not name:
        raise click.UsageError("name the STATE of the keys")
    client, job = (None, "") if savepoint else _found(jobmanager, token, named[0])
    try:
        if scan:
            source = _Source(client, job, savepoint, checkpoint=checkpoint)
            _show_scan(source, operator, name, where, limit, as_json=as_json)
            return
        found = (
            _of_savepoint(str(savepoint), operator, name, wanted)
            if client is None
            else _of_job(client, job, operator, name, wanted)
        )
    except PenstockError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        print_json(found)
    elif not wanted:
        for one in found["states"]:
            click.echo(f"{one['name']} ({one['kind']})")
        if not found["states"]:
            click.echo(f"{operator} has no keyed state.")
    else:
        for one in found["values"]:
            window = f" in {one['namespace']}" if one["namespace"] else ""
            click.echo(f"{one['key']}{window}: {one['text']}")
    if wanted and not found["values"]:
        raise (
            click.exceptions.Exit(1)
            if as_json
            else click.ClickException(f"{name!r} has no value for {' or '.join(wanted)}")
        )


def _found(jobmanager: str | None, token: str | None, name: str) -> tuple[ClusterClient, str]:
    client, job = find_job(clients(jobmanager, token), name)
    return client, job["jid"]


def _of_job(
    client: ClusterClient, job: str, operator: str, name: str, keys: Sequence[str]
) -> dict[str, Any]:
    query = urllib.parse.urlencode(
        [("operator", operator), ("state", name), *(("key", key) for key in keys)]
    )
    found: dict[str, Any] = client.ask(f"/jobs/{job}/state?{query}")
    return found


@dataclass(frozen=True)
class _Source:
    """The place that a scan reads.

    Attributes:
        client: The cluster of a running job; None for a savepoint.
        job: The id of the job.
        savepoint: The path of the savepoint, or None.
        checkpoint: Whether to read the job's last complete checkpoint.
    """

    client: ClusterClient | None
    job: str
    savepoint: str | None
    checkpoint: bool

    def batches(
        self, operator: str, name: str, where: Sequence[str], limit: int
    ) -> tuple[str, Iterator[Any]]:
        """Return the description of a scan's consistency, and its batches."""
        from penstock.state_processor.live_state import scan_savepoint
        from penstock.taskexecutor.state.state_filters import condition_of_text

        conditions = tuple(map(condition_of_text, where))
        if self.client is not None and not self.checkpoint:
            return "live", self._pages(operator, name, where, limit)
        path = self.savepoint or self._last_checkpoint()
        batch_rows = min(limit, _BATCH_ROWS)
        return f"as of {path}", scan_savepoint(
            _opened(path), operator, name, conditions, batch_rows
        )

    def _last_checkpoint(self) -> str:
        assert self.client is not None, "of a running job"
        latest = self.client.ask(f"/jobs/{self.job}/checkpoints")["latest"]["completed"]
        if latest is None or latest["discarded"]:
            raise click.ClickException("the job has no complete checkpoint: leave out --checkpoint")
        path: str = latest["external_path"]
        return path

    def _pages(self, operator: str, name: str, where: Sequence[str], limit: int) -> Iterator[Any]:
        import pyarrow as pa

        from penstock.taskexecutor.state.state_filters import FilterFields

        assert self.client is not None, "of a running job"
        cursor: str | None = ""
        fields = FilterFields()
        while cursor is not None:
            query = urllib.parse.urlencode(
                [
                    ("operator", operator),
                    ("state", name),
                    ("limit", min(limit, _BATCH_ROWS)),
                    ("cursor", cursor),
                    *(("where", condition) for condition in where),
                ]
            )
            page = self.client.ask(f"/jobs/{self.job}/state/scan?{query}")
            fields.add(page["fields"])
            if page["rows"]:
                yield from pa.ipc.open_stream(base64.b64decode(page["arrow"]))
            cursor = page["cursor"]
        fields.check()


def _show_scan(
    source: _Source,
    operator: str,
    name: str,
    where: Sequence[str],
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print entries, as JSON objects if requested; report on stderr how they were read."""
    consistency, batches = source.batches(operator, name, where, limit)
    entries = (entry for batch in batches for entry in batch.to_pylist())
    for number, entry in enumerate(entries):
        if number == limit:
            click.echo(f"The first {limit} entries, {consistency}; set --limit.", err=True)
            return
        if as_json:
            click.echo(json.dumps(entry, default=str))
        else:
            window = "" if entry["namespace"] is None else f" in {entry['namespace']!r}"
            click.echo(f"{entry['key']!r}{window}: {entry['value']!r}")
    click.echo(f"All entries, {consistency}.", err=True)


def _opened(path: str) -> Savepoint:
    """Open a savepoint; modules of the job are found in the current folder, as in a program."""
    from penstock.state_processor.reader import Savepoint

    sys.path.insert(0, str(Path.cwd()))
    return Savepoint.read(path)


def _of_savepoint(path: str, operator: str, name: str, keys: Sequence[str]) -> dict[str, Any]:
    from penstock.serialization.pure.keys import identity_of
    from penstock.taskexecutor.task.record_sample import text_of
    from penstock.taskexecutor.task.state_lookup import keys_meant

    read = _opened(path)
    found: dict[str, Any] = {"operator": operator, "states": [], "redacted": False, "values": []}
    found["states"] = [
        {"name": one, "kind": "keyed"} for one in sorted(read.keyed_state_names(operator))
    ]
    if name:
        meant = {identity_of(one) for key in keys for one in keys_meant(key)}
        found["values"] = [
            {
                "key": text_of(own),
                "namespace": "" if namespace is None else text_of(namespace),
                "text": text_of(value),
            }
            for _, own, namespace, value in read.keyed_state_entries(operator, name)
            if identity_of(own) in meant
        ]
    return found
