"""``penstock history-server``: shows jobs whose clusters have ended."""

from __future__ import annotations

import contextlib
import json
import signal

import click

from penstock.command_line.flags import FlagCommand, configured
from penstock.command_line.signal_waker import SignalWaker
from penstock.common.configuration import Configuration
from penstock.common.options.check import check_options, is_own, no_such_option
from penstock.datastream.process_configuration import process_configuration
from penstock.errors import ConfigurationError


@click.command("history-server", cls=FlagCommand)
@click.option(
    "-D", "options", metavar="KEY=VALUE", multiple=True, help="Set an option; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print the link as JSON.")
def history_server(options: tuple[str, ...], as_json: bool) -> None:
    """Show ended jobs from their archives.

    Jobs write archives to jobmanager.archive.fs.dir. Ctrl-C ends the server.
    """
    given = configured(options)
    try:
        found = {**process_configuration().to_dict(), **given}
        check_options(Configuration.from_dict(found).to_dict())
        for key in filter(is_own, given):
            raise no_such_option(key)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    try:
        from penstock.rest.history import HistoryServer
    except ImportError as error:
        raise click.ClickException(
            f"{error.name} is not installed: pip install 'penstock-engine[rest]'"
        ) from error
    try:
        server = HistoryServer(found)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True

    signal.signal(signal.SIGTERM, end)
    with SignalWaker() as waker:
        server.start()
        try:
            click.echo(json.dumps({"url": server.link}) if as_json else f"History: {server.link}")
            with contextlib.suppress(KeyboardInterrupt):
                while not is_ended:
                    waker.wait()
        finally:
            server.close()
