"""``penstock state``: what keyed state has of a key, of a running job or of a savepoint."""

from __future__ import annotations

import urllib.parse
from typing import Any

import click

from penstock.command_line.cluster_client import clients, cluster_options, find_job, print_json
from penstock.command_line.flags import FlagCommand
from penstock.errors import PenstockError


@click.command(cls=FlagCommand)
@click.argument("words", nargs=-1, metavar="[JOB] OPERATOR [STATE [KEY]]")
@click.option("-s", "--savepoint", metavar="PATH", help="Look there instead of in a running JOB.")
@cluster_options
def state(
    words: tuple[str, ...],
    savepoint: str | None,
    jobmanager: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Look up KEY in a STATE of OPERATOR, or list its states.

    The operator is named by its uid, id or name.  KEY is a literal of Python, as 7 or "(1, 'a')",
    or a text.
    """
    named, words = (words[:1], words[1:]) if savepoint is None else ((), words)
    if (savepoint is None and not named) or not 1 <= len(words) <= 3:
        raise click.UsageError("name the JOB (or -s PATH), the OPERATOR, then a STATE and a KEY")
    operator, name, key = (*words, "", "")[:3]
    if savepoint is None:
        client, job = find_job(clients(jobmanager, token), named[0])
        query = urllib.parse.urlencode({"operator": operator, "state": name, "key": key})
        found = client.ask(f"/jobs/{job['jid']}/state?{query}")
    else:
        try:
            found = _of_savepoint(savepoint, operator, name, key)
        except PenstockError as error:
            raise click.ClickException(str(error)) from None
    if as_json:
        print_json(found)
    elif not key:
        for one in found["states"]:
            click.echo(f"{one['name']} ({one['kind']})")
        if not found["states"]:
            click.echo(f"{operator} has no keyed state.")
    else:
        for one in found["values"]:
            where = f" in {one['namespace']}" if one["namespace"] else ""
            click.echo(f"{one['key']}{where}: {one['text']}")
    if key and not found["values"]:
        raise (
            click.exceptions.Exit(1)
            if as_json
            else click.ClickException(f"{name!r} has no value for {key}")
        )


def _of_savepoint(path: str, operator: str, name: str, key: str) -> dict[str, Any]:
    from penstock.serialization.pure.keys import identity_of
    from penstock.state_processor.reader import Savepoint
    from penstock.taskexecutor.task.record_sample import text_of
    from penstock.taskexecutor.task.state_lookup import keys_meant

    read = Savepoint.read(path)
    found: dict[str, Any] = {"operator": operator, "states": [], "redacted": False, "values": []}
    found["states"] = [
        {"name": one, "kind": "keyed"} for one in sorted(read.keyed_state_names(operator))
    ]
    if name:
        meant = {identity_of(one) for one in keys_meant(key)}
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
