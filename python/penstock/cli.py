"""The ``penstock`` command.

``penstock run`` executes a program in this process with its own arguments, as ``python`` would,
after putting the options into the process's default configuration: the environment variables
``PENSTOCK_EXECUTION_TARGET`` and ``PENSTOCK_CONFIGURATION`` (a JSON object of option → value),
which :meth:`StreamExecutionEnvironment.get_execution_environment` reads.
The other commands are in :mod:`penstock.command_line`, with the exit codes of all.
"""

import importlib
import json
import linecache
import os
import runpy
import sys
import sysconfig
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

import click

from penstock import __version__
from penstock.common.configuration import Configuration
from penstock.common.options.check import check_options, check_values
from penstock.common.options.cluster import ATTACHED, SESSION, TARGET
from penstock.common.options.pipeline import PARALLELISM
from penstock.common.options.state_recovery import CLAIM_MODE, IGNORE_UNCLAIMED, PATH
from penstock.datastream.execution import CONFIGURATION_VARIABLE, TARGET_VARIABLE
from penstock.datastream.process_configuration import (
    options_of_variable,
    process_configuration,
)
from penstock.errors import ConfigurationError, PenstockError

_COMMANDS: Final = {
    "cancel": "penstock.command_line.job_commands:cancel",
    "checkpoint": "penstock.command_line.job_commands:checkpoint",
    "cluster": "penstock.command_line.session_commands:cluster",
    "demo": "penstock.command_line.demo:demo",
    "completion": "penstock.command_line.program_commands:completion",
    "config": "penstock.command_line.machine_commands:config",
    "doctor": "penstock.command_line.machine_commands:doctor",
    "history-server": "penstock.command_line.history_server:history_server",
    "jobmanager": "penstock.command_line.session_commands:jobmanager",
    "info": "penstock.command_line.program_commands:info",
    "logs": "penstock.command_line.log_commands:logs",
    "rescale": "penstock.command_line.job_commands:rescale",
    "top": "penstock.command_line.watch:top",
    "list": "penstock.command_line.job_commands:list_jobs",
    "metrics": "penstock.command_line.job_commands:metrics",
    "savepoint": "penstock.savepoint_command:savepoint",
    "state": "penstock.command_line.state_command:state",
    "status": "penstock.command_line.job_commands:status",
    "stop": "penstock.command_line.job_commands:stop",
    "taskexecutor": "penstock.command_line.session_commands:taskexecutor",
}
"""Where commands are; each is imported when it is asked for, as a job's start waits for imports."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, name = _COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Stateful stream processing with PyFlink's API, on Spark executors."""


def parse_option(text: str) -> tuple[str, str]:
    """Key and value of a ``-D`` option.

    Raises:
        BadParameter: It is not of the form ``key=value``, or the value is none of the option.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise click.BadParameter(f"'{text}' is not of the form key=value", param_hint="-D")
    try:
        check_values({key.strip(): value})
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="-D") from None
    return key.strip(), value


@main.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option(
    "--target",
    type=click.Choice(["spark", "local", "in-process", "session"]),
    help=(
        f"Where the TaskExecutors run; else what {TARGET.key} or {TARGET_VARIABLE} says, else "
        "spark."
    ),
)
@click.option(
    "--cluster",
    metavar="NAME|HOST:PORT",
    help="With --target session: which; else the only one of this user on this machine.",
)
@click.option("--master", metavar="URL", help="Spark master; else Spark's configuration, local[*].")
@click.option("-p", "--parallelism", type=click.IntRange(min=1), help="Default parallelism.")
@click.option("-D", "options", metavar="KEY=VALUE", multiple=True, help="A configuration option.")
@click.option(
    "-s",
    "--from-savepoint",
    metavar="PATH",
    help="The savepoint or retained checkpoint that the program's jobs start from.",
)
@click.option(
    "-n",
    "--allow-non-restored-state",
    is_flag=True,
    help="Leave state behind of operators that the job does not have.",
)
@click.option(
    "--claim-mode",
    type=click.Choice(["NO_CLAIM", "CLAIM"], case_sensitive=False),
    help="Whether the job owns what it starts from, and deletes it in time.",
)
@click.option(
    "-d",
    "--detached",
    is_flag=True,
    help=(
        "Run it in the background, with the REST interface on; returns when its job is there. In "
        "a session, run it here, and do not wait for its jobs."
    ),
)
@click.option("--json", "as_json", is_flag=True, help="With -d, print what was started as JSON.")
@click.option("--as-pyflink", is_flag=True, help="Run an unmodified PyFlink program.")
@click.option("-m", "--module", is_flag=True, help="PROGRAM is a module, as for python -m.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    target: str | None,
    cluster: str | None,
    master: str | None,
    parallelism: int | None,
    options: tuple[str, ...],
    from_savepoint: str | None,
    allow_non_restored_state: bool,
    claim_mode: str | None,
    detached: bool,
    as_json: bool,
    as_pyflink: bool,
    module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run PROGRAM with ARGUMENTS; options of penstock come before PROGRAM.

    PROGRAM is a file, or - for standard input.
    """
    is_read = program == "-" and not module
    if not (module or is_read or Path(program).is_file()):
        raise click.BadParameter(f"there is no file {program!r}", param_hint="PROGRAM")
    if as_json and not detached:
        raise click.UsageError("--json goes with -d: else what PROGRAM prints is all there is")
    given = dict(parse_option(option) for option in options)
    if target is not None and given.setdefault(TARGET.key, target) != target:
        raise click.UsageError(f"--target {target} and -D {TARGET.key}={given[TARGET.key]}")
    try:
        configuration = {**options_of_variable(), **given}
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    try:
        chosen = {**process_configuration().to_dict(), **given}.get(TARGET.key)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    chosen = chosen or os.environ.setdefault(TARGET_VARIABLE, "spark")
    if master is not None and chosen != "spark":
        raise click.UsageError(f"--master is for target spark; the target is {chosen}")
    if cluster is not None:
        if chosen != "session":
            raise click.UsageError(f"--cluster is for target session; the target is {chosen}")
        configuration[SESSION.key] = cluster
    if chosen == "session" and detached:
        if as_json:
            raise click.UsageError("--json with -d is not for a session: PROGRAM runs here")
        configuration[ATTACHED.key] = "false"
        detached = False
    if detached and is_read:
        raise click.UsageError("-d is for a program in a file: standard input stays here")
    if parallelism is not None:
        configuration[PARALLELISM.key] = str(parallelism)
    if master is not None:
        from penstock.spark.places import check_master

        try:
            check_master(master)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
        configuration["spark.master"] = master
    if from_savepoint is None and (allow_non_restored_state or claim_mode is not None):
        flag = "--claim-mode" if claim_mode is not None else "--allow-non-restored-state"
        raise click.UsageError(f"{flag} says how a job starts from a savepoint: give -s as well")
    if from_savepoint is not None:
        configuration[PATH.key] = from_savepoint
    if allow_non_restored_state:
        configuration[IGNORE_UNCLAIMED.key] = "true"
    if claim_mode is not None:
        configuration[CLAIM_MODE.key] = claim_mode
    try:
        check_options(Configuration.from_dict(configuration).to_dict())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if detached:
        from penstock.command_line.program_commands import detach

        detach(_arguments(context.params), configuration, as_json=as_json)
        return
    os.environ[CONFIGURATION_VARIABLE] = json.dumps(configuration)
    if as_pyflink:
        from penstock.pyflink_alias import install

        install()
    sys.argv = [program, *arguments]
    sys.excepthook = partial(_show_error_of_program, sys.excepthook)
    if module:
        sys.path.insert(0, str(Path.cwd()))
        if find_spec(program.partition(".")[0]) is None:
            raise click.BadParameter(f"there is no module {program!r}", param_hint="PROGRAM")
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif is_read:
        sys.path.insert(0, str(Path.cwd()))
        _run_standard_input()
    else:
        sys.path.insert(0, str(Path(program).resolve().parent))
        runpy.run_path(program, run_name="__main__")


def _show_error_of_program(
    show: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Shows what a program raised as ``python`` would: from the program's own first line on.

    The frames above it are of this command, and of what imports and runs programs.  What penstock
    says by itself ends at the program's last line: where within penstock it was found means
    nothing to who reads it.
    """
    frame = trace
    while frame is not None and frame.tb_frame.f_code.co_filename != __file__:
        frame = frame.tb_next
    while frame is not None and _runs_programs(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    if isinstance(error, PenstockError):
        _leave_out_own_frames(frame)
    show(kind, error.with_traceback(frame), frame)


def _runs_programs(path: str) -> bool:
    return path in (__file__, runpy.__file__) or path.startswith("<frozen ")


def _leave_out_own_frames(trace: TracebackType | None) -> None:
    """Cuts a traceback behind the last frame that is neither of penstock nor of Python itself."""
    package, library = str(Path(__file__).parent), sysconfig.get_path("stdlib")
    installed = sysconfig.get_path("purelib")  # it may lie within the library
    last = None
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        is_library = path.startswith(library + os.sep) and not path.startswith(installed + os.sep)
        if not (is_library or path.startswith(package + os.sep)):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _run_standard_input() -> None:
    """Runs what stands there as ``python -`` does, and lets tracebacks show its lines."""
    source = sys.stdin.buffer.read()
    name = "<stdin>"
    lines = source.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec"), main.__dict__)


def _arguments(params: Mapping[str, Any]) -> list[str]:
    """The command line of ``run`` again, without what is about detaching."""
    found: list[str] = []
    for option in run.params:
        value = params[option.name or ""]
        if (
            option.name in ("detached", "as_json")
            or not isinstance(option, click.Option)
            or not value
        ):
            continue
        name = option.opts[-1]
        if option.is_flag:
            found.append(name)
        else:
            for one in value if option.multiple else (value,):
                found += [name, str(one)]
    return [*found, params["program"], *params["arguments"]]
