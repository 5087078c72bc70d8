"""The flags of ``penstock run`` and ``penstock info``: Flink's, and a few more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from penstock.command_line.client_process import choose_target, run_under
from penstock.command_line.flags import (
    FlagCommand,
    TargetChoice,
    configured,
    refused_flag,
)
from penstock.common.configuration import Configuration
from penstock.common.options import high_availability, user_code
from penstock.common.options.check import check_options
from penstock.common.options.cluster import SESSION, TARGET
from penstock.common.options.pipeline import PARALLELISM
from penstock.common.options.state_recovery import CLAIM_MODE, IGNORE_UNCLAIMED, PATH
from penstock.datastream.execution import TARGET_VARIABLE
from penstock.datastream.process_configuration import (
    options_of_variable,
    process_configuration,
)
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.options.option import Option

_YARN_CLUSTER: Final = "yarn-cluster"

_KEYS: Final[dict[str, str]] = {
    "cluster": SESSION.key,
    "parallelism": PARALLELISM.key,
    "from_savepoint": PATH.key,
    "claim_mode": CLAIM_MODE.key,
    "python_files": user_code.FILES.key,
    "python_archives": user_code.ARCHIVES.key,
    "python_requirements": user_code.REQUIREMENTS.key,
    "python_executable": user_code.EXECUTABLE.key,
    "client_executable": user_code.CLIENT_EXECUTABLE.key,
    "python_path": user_code.PYTHON_PATH.key,
    "namespace": high_availability.CLUSTER_ID.key,
    "master": "spark.master",
}
"""The keys of the options that flags with a value set, by the names of the flags' parameters."""


class Program(NamedTuple):
    """The program to run.

    Attributes:
        name: A file, a module, or - for standard input.
        is_module: Whether ``name`` is a module.
        arguments: The arguments of the program.
    """

    name: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def is_read(self) -> bool:
        """True if the program comes from standard input."""
        return self.name == "-" and not self.is_module


class ProgramCommand(FlagCommand):
    """A command with a program; before a module, -m is Python's flag, before an address Flink's."""

    def meant_name(self, name: str, following: str | None) -> str:
        """Return ``--jobmanager`` for a -m before an address: names of modules have no colon."""
        is_address = following is not None and (":" in following or following == _YARN_CLUSTER)
        return "--jobmanager" if name == "-m" and is_address else name

    def ends_with_unknown_name(self, seen: set[str | None]) -> bool:
        """Return whether -py or -pym has named the program: further words are its arguments."""
        return bool(seen & {"python", "python_module"})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command under the interpreter that is configured for programs."""
        try:
            configuration = process_configuration().to_dict()
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
        configuration |= configured(ctx.params["options"])
        chosen = ctx.params["client_executable"] or user_code.CLIENT_EXECUTABLE.read(configuration)
        if chosen is not None:
            words = words_of(self, ctx.params, {"client_executable"})
            run_under(chosen, [str(self.name), *words])
        return super().invoke(ctx)


def place_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the flags of a command that runs jobs: target, options and files."""
    for flag in reversed((*_PLACE_FLAGS, *_CODE_FLAGS)):
        command = flag(command)
    return command


def program_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the flags and the arguments of a command that runs a program."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


_PLACE_FLAGS: Final = (
    click.option(
        "-t",
        "--target",
        type=TargetChoice(),
        help=(
            f"Where the job runs. Default: {TARGET.key} or {TARGET_VARIABLE}; without them, spark "
            "if a Spark is configured, otherwise local."
        ),
    ),
    click.option(
        "--cluster",
        "--jobmanager",
        metavar="NAME|HOST:PORT",
        help="The session to run in, also as -m HOST:PORT. Default: this user's only one here.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Spark master. Default: from Spark's configuration, or local[*].",
    ),
    click.option("-p", "--parallelism", type=click.IntRange(min=1), help="Default parallelism."),
    click.option(
        "-D",
        "options",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set a configuration option; repeatable.",
    ),
    click.option(
        "-s",
        "--fromSavepoint",
        "--from-savepoint",
        "from_savepoint",
        metavar="PATH",
        help="Start the program's jobs from a savepoint or a retained checkpoint.",
    ),
    click.option(
        "-n",
        "--allowNonRestoredState",
        "--allow-non-restored-state",
        "allow_non_restored_state",
        is_flag=True,
        help="Skip state of operators that the job no longer has.",
    ),
    click.option(
        "-cm",
        "--claimMode",
        "--claim-mode",
        "-rm",
        "--restoreMode",
        "claim_mode",
        metavar="NO_CLAIM|CLAIM",
        help="With CLAIM the job owns the savepoint and deletes it when it is no longer needed.",
    ),
)

_RUN_FLAGS: Final = (
    click.option(
        "-d",
        "--detached",
        is_flag=True,
        help=(
            "Run the program in the background, with the REST interface on, and return when its "
            "job has started. In a session, run the program here, and do not wait for its jobs."
        ),
    ),
    click.option(
        "-sae",
        "--shutdownOnAttachedExit",
        "shutdown_on_exit",
        is_flag=True,
        help="Accepted for Flink: a job always ends with the program that waits for it.",
    ),
    click.option("--as-pyflink", is_flag=True, help="Run an unmodified PyFlink program."),
    click.option("-m", "--module", is_flag=True, help="PROGRAM is a module, as in python -m."),
    click.option("-py", "--python", metavar="FILE", help="Run this file; only ARGUMENTS follow."),
    click.option(
        "-pym",
        "--pyModule",
        "python_module",
        metavar="MODULE",
        help="Run this module; only ARGUMENTS follow.",
    ),
    click.option(
        "-pyclientexec",
        "--pyClientExecutable",
        "client_executable",
        metavar="PATH",
        help="The Python interpreter that runs the program.",
    ),
    click.option("-j", "--jarfile", metavar="PATH", hidden=True),
    click.option("-C", "--classpath", metavar="URL", multiple=True, hidden=True),
    refused_flag("-e", "--executor", why="write -t"),
    refused_flag(
        "-c",
        "--class",
        why="it names a class of Java; a program is PROGRAM, -py FILE or -pym MODULE",
    ),
    refused_flag("-yid", "--yarnapplicationId", why="name a session by -m HOST:PORT"),
    click.argument("program", required=False),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
)

_CODE_FLAGS: Final = (
    click.option(
        "-pyfs",
        "--pyFiles",
        "python_files",
        metavar="PATHS",
        help="Modules and folders to import from, in the program and its workers; comma-separated.",
    ),
    click.option(
        "-pyarch",
        "--pyArchives",
        "python_archives",
        metavar="PATH[#FOLDER]",
        help="Archives that workers unpack; comma-separated.",
    ),
    click.option(
        "-pyreq",
        "--pyRequirements",
        "python_requirements",
        metavar="PATH[#FOLDER]",
        help="A requirements file for the workers, and the folder of its packages.",
    ),
    click.option(
        "-pyexec",
        "--pyExecutable",
        "python_executable",
        metavar="PATH",
        help="The Python interpreter that runs the workers.",
    ),
    click.option(
        "-pypath",
        "--pyPythonPath",
        "python_path",
        metavar="PATHS",
        help="Folders on the workers' machines to add to their module search path.",
    ),
    click.option(
        "-z",
        "--zookeeperNamespace",
        "namespace",
        metavar="NAME",
        help=f"Set {high_availability.CLUSTER_ID.key}.",
    ),
)

_FLAGS: Final = (*_PLACE_FLAGS, *_RUN_FLAGS, *_CODE_FLAGS)


def program_of(given: Mapping[str, Any]) -> Program:
    """Return the program that the command line names.

    Raises:
        UsageError: No program is named, or two are, or the file does not exist or is a jar.
    """
    file, module = given["python"], given["python_module"]
    if file is not None and module is not None:
        raise click.UsageError("-py and -pym name two programs: give one of them")
    positional, arguments = given["program"], given["arguments"]
    name = file if file is not None else module
    if name is None:
        if positional is None:
            raise click.UsageError("Missing argument 'PROGRAM'.")
        found = Program(positional, given["module"], arguments)
    else:
        if given["module"]:
            raise click.UsageError("-m goes with PROGRAM: -py and -pym say what theirs is")
        rest = () if positional is None else (positional, *arguments)
        found = Program(name, module is not None, rest)
    if found.name.endswith(".jar") and not found.is_module:
        raise click.BadParameter(
            f"{found.name!r} is for a JVM: name a program in Python, or rewrite this one in it",
            param_hint="PROGRAM",
        )
    if not (found.is_module or found.is_read or Path(found.name).is_file()):
        raise click.BadParameter(f"there is no file {found.name!r}", param_hint="PROGRAM")
    return found


class Place(NamedTuple):
    """Target and options of a command's jobs.

    Attributes:
        configuration: The options that flags and environment variables set.
        outside: The same, with the options of the configuration file.
        target: The target; None for local, or for Spark if the program has a SparkSession.
    """

    configuration: dict[str, str]
    outside: dict[str, str]
    target: str | None


def place_of(given: Mapping[str, Any]) -> Place:
    """Return the place that flags, environment and configuration file choose.

    Raises:
        UsageError: Settings contradict each other, or a value is invalid.
    """
    try:
        configuration = {**options_of_variable(), **configuration_of(given)}
        outside = {**process_configuration().to_dict(), **configuration}
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if not PATH.is_set(outside):
        for flag in ("claim_mode", "allow_non_restored_state"):
            if given[flag]:
                name = f"--{flag.replace('_', '-')}"
                text = f"{name} has no effect without -s: name a savepoint, or leave it out"
                click.echo(f"penstock: {text}", err=True)
    target = choose_target(outside, master=given["master"], cluster=given["cluster"])
    return Place(configuration, outside, target)


def check_configuration(configuration: Mapping[str, str]) -> None:
    """Check the options of a command.

    Raises:
        UsageError: An option is unknown, or has an invalid value.
    """
    try:
        check_options(Configuration.from_dict(configuration).to_dict())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def configuration_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that the flags set, those of -D included.

    Raises:
        UsageError: Flags contradict each other, or a value is invalid.
    """
    found = configured(given["options"])
    target = given["target"]
    if target is not None and _parsed(TARGET, found.setdefault(TARGET.key, target)) != target:
        raise click.UsageError(f"--target {target} and -D {TARGET.key}={found[TARGET.key]}")
    if given["cluster"] == _YARN_CLUSTER:
        raise click.UsageError(
            "penstock starts no cluster of YARN: --master yarn runs the job on a Spark there"
        )
    found |= {key: str(given[name]) for name, key in _KEYS.items() if given[name] is not None}
    if given["allow_non_restored_state"]:
        found[IGNORE_UNCLAIMED.key] = "true"
    if given["jarfile"] is not None:
        found[user_code.JARS.key] = _url(given["jarfile"])
    if given["classpath"]:
        found[user_code.CLASSPATHS.key] = ";".join(given["classpath"])
    if given["master"] is not None:
        from penstock.spark.places import check_master

        try:
            check_master(given["master"])
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
    return found


def words_of(command: click.Command, given: Mapping[str, Any], without: set[str]) -> list[str]:
    """Return the same command line without some of its flags."""
    words: list[str] = []
    for option in command.params:
        value = given.get(option.name or "")
        if not isinstance(option, click.Option) or option.name in without or not value:
            continue
        name = option.opts[-1]
        if option.is_flag:
            words.append(name)
        else:
            for one in value if option.multiple else (value,):
                words += [name, str(one)]
    positional = () if given["program"] is None else (given["program"],)
    return [*words, "--", *positional, *given["arguments"]]


def _parsed(option: Option[Any], text: str) -> Any:
    try:
        return option.parse(text)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def _url(path: str) -> str:
    return path if ":/" in path else Path(path).absolute().as_uri()
