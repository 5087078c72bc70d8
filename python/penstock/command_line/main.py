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
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

import click

import penstock
from penstock import __version__, pyflink_alias
from penstock.command_line.client_process import add_python_files
from penstock.command_line.flags import FlagGroup
from penstock.command_line.program_flags import (
    Program,
    ProgramCommand,
    check_configuration,
    place_of,
    program_flags,
    program_of,
    words_of,
)
from penstock.common.options.cluster import ATTACHED
from penstock.datastream.execution import CONFIGURATION_VARIABLE
from penstock.errors import PenstockError

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
    "run-application": "penstock.command_line.program_commands:run_application",
    "rescale": "penstock.command_line.job_commands:rescale",
    "top": "penstock.command_line.watch:top",
    "list": "penstock.command_line.job_commands:list_jobs",
    "metrics": "penstock.command_line.metrics_command:metrics",
    "savepoint": "penstock.command_line.savepoint_commands:savepoint",
    "sql": "penstock.command_line.sql_command:sql",
    "state": "penstock.command_line.state_command:state",
    "status": "penstock.command_line.job_commands:status",
    "stop": "penstock.command_line.job_commands:stop",
    "taskexecutor": "penstock.command_line.session_commands:taskexecutor",
}
"""The modules of commands; each is imported on demand, because a job's start waits for imports."""


class _Commands(FlagGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, name = _COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-v", "--version")
def main() -> None:
    """Stateful stream processing with PyFlink's API, on one machine or on Spark executors."""


@main.command(cls=ProgramCommand, context_settings={"allow_interspersed_args": False})
@program_flags
@click.option("--json", "as_json", is_flag=True, help="With -d, print the job as JSON.")
def run(as_json: bool, **given: Any) -> None:
    """Run PROGRAM with ARGUMENTS.

    Options of penstock come before PROGRAM, which is a file, or - for standard input.
    -py FILE and -pym MODULE are other ways to name the program.
    """
    program = program_of(given)
    detached = given["detached"]
    if as_json and not detached:
        raise click.UsageError("--json needs -d: otherwise the output is that of PROGRAM")
    configuration, outside, chosen = place_of(given)
    if chosen == "session" and detached:
        if as_json:
            raise click.UsageError("--json with -d is not possible in a session: PROGRAM runs here")
        from penstock.command_line.program_commands import SessionJobTeller
        from penstock.common.job_listener import PROCESS_LISTENERS

        configuration[ATTACHED.key] = "false"
        detached = False
        PROCESS_LISTENERS.append(SessionJobTeller(configuration))
    if detached and program.is_read:
        raise click.UsageError("-d is for a program in a file: standard input stays here")
    check_configuration(configuration)
    if detached:
        from penstock.command_line.program_commands import detach

        words = words_of(run, given, {"detached", "client_executable"})
        detach(words, configuration, as_json=as_json)
        return
    os.environ[CONFIGURATION_VARIABLE] = json.dumps(configuration)
    if given["as_pyflink"]:
        pyflink_alias.install()
    else:
        pyflink_alias.offer(f"penstock: {program.name} imports pyflink: it runs --as-pyflink")
    sys.argv = [program.name, *program.arguments]
    sys.excepthook = partial(_show_error_of_program, sys.excepthook)
    add_python_files(outside)
    _run_program(program)


def _run_program(program: Program) -> None:
    name = program.name
    if program.is_module:
        sys.path.insert(0, str(Path.cwd()))
        if find_spec(name.partition(".")[0]) is None:
            raise click.BadParameter(f"there is no module {name!r}", param_hint="PROGRAM")
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif program.is_read:
        sys.path.insert(0, str(Path.cwd()))
        _run_standard_input()
    else:
        sys.path.insert(0, str(Path(name).resolve().parent))
        runpy.run_path(name, run_name="__main__")


def _show_error_of_program(
    show: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an exception of the program as ``python`` would: from the program's first line on.

    The frames above that line belong to this command and to ``runpy``.  The traceback of an error
    that penstock itself raises ends at the program's last line, because the frames within penstock
    do not help the user.
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
    """Cut a traceback after the last frame that belongs neither to penstock nor to Python."""
    package, library = str(Path(penstock.__file__).parent), sysconfig.get_path("stdlib")
    installed = sysconfig.get_path("purelib")  # may be a folder of the library
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
    """Run the program on standard input as ``python -`` does, so that tracebacks show its lines."""
    source = sys.stdin.buffer.read()
    name = "<stdin>"
    lines = source.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec"), main.__dict__)
