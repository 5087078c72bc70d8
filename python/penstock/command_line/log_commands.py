"""``penstock logs``: the logs of the driver and of TaskExecutors."""

from __future__ import annotations

import time
import urllib.parse
from typing import Any, Final

import click

from penstock.command_line.cluster_client import (
    ClusterClient,
    UnreachableError,
    clients,
    cluster_options,
    print_json,
)
from penstock.command_line.flags import FlagCommand

FOLLOW_S: Final = 1.0
DRIVER: Final = "driver"


@click.command(cls=FlagCommand)
@click.argument("source", default=DRIVER)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines.")
@cluster_options
def logs(
    source: str, follow: bool, jobmanager: str | None, token: str | None, as_json: bool
) -> None:
    """Print the last lines of a log.

    SOURCE is driver, the id of a TaskExecutor, or all.
    """
    if follow and as_json:
        raise click.UsageError("--json prints one answer and cannot be combined with -f")
    found = [
        (client, name, path)
        for client in clients(jobmanager, token)
        for name, path in _logs(client)
        if source in ("all", name)
    ]
    if not found:
        raise click.ClickException(f"there is no TaskExecutor {source!r}: penstock logs all")
    positions = dict.fromkeys(range(len(found)), 0)
    while True:
        said: list[dict[str, Any]] = []
        for number, (client, name, path) in enumerate(found):
            try:
                text, positions[number] = client.ask_text(f"{path}?since={positions[number]}")
            except UnreachableError:
                if follow and positions[number]:
                    return  # the cluster has ended
                raise
            said.append({"source": name, "log": text})
            if not as_json:
                click.echo(_labelled(text, name if source == "all" else ""), nl=False)
        if as_json:
            print_json(said)
        if not follow:
            return
        time.sleep(FOLLOW_S)


def _logs(client: ClusterClient) -> list[tuple[str, str]]:
    workers = client.ask("/taskmanagers")["taskmanagers"]
    return [
        (DRIVER, "/jobmanager/log"),
        *((one["id"], f"/taskmanagers/{urllib.parse.quote(one['id'])}/log") for one in workers),
    ]


def _labelled(text: str, name: str) -> str:
    if not name:
        return text
    return "".join(f"{name}: {line}\n" for line in text.splitlines())
