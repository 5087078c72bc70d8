"""``penstock demo``: a job that runs for ever, with its dashboard open."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import Final

import click

from penstock.command_line import demo_job
from penstock.command_line.flags import FlagCommand
from penstock.common.options import checkpointing, pipeline, rest, restart_strategy
from penstock.common.options.registry import options_by_key
from penstock.errors import ConfigurationError
from penstock.rest.requirement import require_rest

OPEN_WITHIN_S: Final = 60.0
_OPTIONS: Final = {
    rest.PORT.key: "8081,0",
    rest.FLAME_GRAPHS.key: "true",
    rest.FLAME_GRAPH_SAMPLES.key: "40",
    rest.FLAME_GRAPH_REFRESH.key: "15 s",
    rest.REFRESH_INTERVAL.key: "1 s",
    pipeline.PARALLELISM.key: "2",
    checkpointing.INTERVAL.key: "5 s",
    restart_strategy.TYPE.key: "exponential-delay",
}


@click.command(cls=FlagCommand, context_settings={"ignore_unknown_options": False})
@click.option(
    "-D", "options", metavar="KEY=VALUE", multiple=True, help="Set an option; repeatable."
)
@click.option("--no-browser", is_flag=True, help="Print the link without opening a browser.")
@click.option("--json", "as_json", is_flag=True, help="With --source, print JSON.")
@click.option("--source", "show", is_flag=True, help="Print the program instead of running it.")
@click.pass_context
def demo(
    context: click.Context, options: tuple[str, ...], no_browser: bool, as_json: bool, show: bool
) -> None:
    """Run an endless example job and open its dashboard.

    Ctrl-C ends it.
    """
    program = Path(demo_job.__file__)
    if as_json and not show:
        raise click.UsageError("--json needs --source: otherwise the job prints")
    if show:
        text = program.read_text("utf-8")
        click.echo(json.dumps({"source": text}) if as_json else text, nl=as_json)
        return
    from penstock.command_line.main import run

    try:
        require_rest("the demo is a job with a dashboard")
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    given = {_main_key(option.partition("=")[0].strip()) for option in options}
    if not no_browser:
        threading.Thread(target=_open, name="demo browser", daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        # A separate program, as a user's would be: its lines appear in tracebacks.
        own = shutil.copy(program, Path(folder) / "demo.py")
        defaults = {
            **_OPTIONS,
            checkpointing.SAVEPOINT_FOLDER.key: str(Path.cwd() / "penstock-demo-savepoints"),
        }
        chosen = tuple(f"{key}={value}" for key, value in defaults.items() if key not in given)
        try:
            context.invoke(
                run, target="local", options=(*chosen, *options), program=str(own), arguments=()
            )
        except KeyboardInterrupt:
            click.echo("The demo has ended.")


def _main_key(key: str) -> str:
    """Return the current key of an option, which may be given by an older key."""
    option = options_by_key().get(key)
    return key if option is None else option.key


def _open() -> None:
    """Open the dashboard of this process as soon as it is served."""
    from penstock.rest.run_files import running_clusters

    deadline_s = time.monotonic() + OPEN_WITHIN_S
    while time.monotonic() < deadline_s:
        for cluster in running_clusters():
            if cluster.pid == os.getpid():
                webbrowser.open(cluster.dashboard)
                return
        time.sleep(0.1)
