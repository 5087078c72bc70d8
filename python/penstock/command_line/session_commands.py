"""Commands that run sessions: the two kinds of processes, and a whole local session."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click
import psutil

from penstock.command_line.background import start_jobmanager, tell_leader
from penstock.command_line.cluster_client import print_json
from penstock.command_line.flags import FlagCommand, FlagGroup, configured
from penstock.command_line.signal_waker import SignalWaker
from penstock.common.options import file_systems, high_availability
from penstock.common.options.check import check_options, is_own, no_such_option
from penstock.common.options.cluster import (
    BIND_HOST,
    EVERY_ADDRESS,
    REGISTRATION_TIMEOUT,
    RPC_ADDRESS,
    RPC_PORT,
    SLOTS_PER_EXECUTOR,
    TEMPORARY_FOLDERS,
)
from penstock.common.options.registry import options_by_key, options_of
from penstock.common.options.security import TLS_ENABLED
from penstock.datastream.process_configuration import process_configuration
from penstock.errors import (
    CheckpointStorageError,
    ConfigurationError,
    DependencyError,
    LeadershipLostError,
    PenstockError,
)
from penstock.high_availability.services import HighAvailabilityServices
from penstock.rpc.authentication import new_token
from penstock.rpc.control_credentials import ControlCredentials
from penstock.session.files import (
    TOKEN_VARIABLE,
    check_name,
    check_token,
    find_session,
    parse_address,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.high_availability.leader_election import LeaderElectionService
    from penstock.session.session_cluster import SessionCluster

logger = logging.getLogger(__name__)

T = TypeVar("T")

STOP_TIMEOUT_S: Final = 60.0
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
DEFAULT_NAME: Final = "default"

_OPTIONS = click.option(
    "-D", "options", metavar="KEY=VALUE", multiple=True, help="A configuration option."
)
_TOKEN_FILE = click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help=f"File with the session's token, - for standard input. Default: {TOKEN_VARIABLE}.",
)
_NAME = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="Name of the session on this machine."
)


@click.command(cls=FlagCommand)
@_NAME
@click.option("--host", help=f"Address to listen on; sets {BIND_HOST.key}.")
@click.option("--port", type=int, help=f"Port to listen on, 0 for a free one; sets {RPC_PORT.key}.")
@click.option(
    "--slots",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Slots that this process offers itself, in addition to those of taskexecutors.",
)
@click.option("--on-spark", is_flag=True, help="Ask Spark for the workers of these slots.")
@click.option("--standby-to", "standby", type=int, hidden=True)  # a file descriptor, of `start`
@_TOKEN_FILE
@_OPTIONS
def jobmanager(
    name: str,
    host: str | None,
    port: int | None,
    slots: int,
    on_spark: bool,
    standby: int | None,
    token_file: str | None,
    options: tuple[str, ...],
) -> None:
    """Run the jobmanager of a session.

    SIGTERM or `penstock cluster stop` ends it.
    """
    extra = {} if host is None else {BIND_HOST.key: host}
    if port is not None:
        extra[RPC_PORT.key] = str(port)
    try:
        configuration = _configuration(options, extra)
        check_name(name)
        given = _given_token(token_file)
        from penstock.session.session_cluster import SessionCluster, prepare

        leadership = _leadership(configuration, given)
        if standby is not None and leadership is not None:
            leadership.on_standby(partial(tell_leader, standby))
        _log_to_standard_error()
        if without_effect := _options_of_jobs(configuration):
            logger.info(
                "the configuration of this machine has options of jobs, %s, which only apply to "
                "programs that run on this machine, not to those that other machines submit",
                ", ".join(without_effect),
            )
        prepare()
        process = _Jobmanager(leadership)
        _on_signals(process.end)
        served = _in_a_thread(
            "jobmanager",
            lambda: process.serve(
                lambda: (_on_spark if on_spark else SessionCluster)(
                    name, configuration, given or new_token().hex(), slots, leadership
                )
            ),
        )
    except (
        ConfigurationError,
        CheckpointStorageError,
        DependencyError,
        LeadershipLostError,
    ) as error:
        raise click.ClickException(str(error)) from None
    if not served:
        sys.exit(1)


def _on_spark(
    name: str,
    configuration: Mapping[str, str],
    token: str,
    slots: int,
    leadership: LeaderElectionService | None,
) -> SessionCluster:
    """Return a session whose taskexecutors are Spark tasks.

    Raises:
        ConfigurationError: As in `SessionCluster`, or Spark cannot be started.
    """
    from penstock.session.session_cluster import SessionCluster
    from penstock.spark.session_hosts import SparkHosts

    hosts = SparkHosts(configuration, slots)
    try:
        return SessionCluster(name, hosts.configuration, token, 0, leadership, hosts)
    except BaseException:
        hosts.stop()
        raise


class _Jobmanager:
    """The life of a jobmanager's process: it stands by, leads, and ends."""

    def __init__(self, leadership: LeaderElectionService | None) -> None:
        self._leadership = leadership
        self._cluster: SessionCluster | None = None
        self._is_ending = False

    def end(self) -> None:
        """Make `serve` return; called by a signal handler."""
        self._is_ending = True
        if self._leadership is not None:
            self._leadership.give_up()
        if self._cluster is not None:
            self._cluster.end()

    def serve(self, make: Callable[[], SessionCluster]) -> bool:
        """Serve until `end` is called; return False if another jobmanager has taken over."""
        if self._leadership is not None and not self._leadership.acquire():
            return True
        try:
            self._cluster = cluster = make()
            cluster.start()
        except BaseException:
            if self._leadership is not None:
                self._leadership.release()
            raise
        try:
            if not self._is_ending:
                cluster.wait()
        finally:
            cluster.stop()
        return cluster.leadership_lost is None


def _leadership(
    configuration: Mapping[str, str], token: str | None
) -> LeaderElectionService | None:
    """Return the leader election of this jobmanager; None without high availability.

    Raises:
        ConfigurationError: Options contradict each other.
    """
    services = HighAvailabilityServices.configured(configuration)
    if services is None:
        return None
    if token is None:
        raise ConfigurationError(
            f"with {high_availability.TYPE.key} all jobmanagers, taskexecutors and programs of the "
            f"session hold the same token: give it by {TOKEN_VARIABLE} or --token-file"
        )
    host = BIND_HOST.read(configuration)
    if host in EVERY_ADDRESS and RPC_ADDRESS.read(configuration) is None:
        raise ConfigurationError(
            f"{BIND_HOST.key}: {host} is not an address that others can reach: with "
            f"{high_availability.TYPE.key} name the address by which others reach it, as "
            f"{RPC_ADDRESS.key}"
        )
    return services.leadership()


@click.command(cls=FlagCommand)
@click.option(
    "--jobmanager",
    "address",
    metavar="HOST:PORT",
    help="The session's jobmanager. Default: the leader of high-availability.cluster-id.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help=f"Workers to run at a time. Default: {SLOTS_PER_EXECUTOR.key}, or one per CPU.",
)
@click.option(
    "--host",
    help="Address that workers listen on. Default: the one that the jobmanager sees.",
)
@_TOKEN_FILE
@_OPTIONS
def taskexecutor(
    address: str | None,
    slots: int | None,
    host: str | None,
    token_file: str | None,
    options: tuple[str, ...],
) -> None:
    """Host workers for the jobs of a session.

    SIGTERM or the end of the session ends it.

    Exit codes: 0 if it was told to end, 1 if the jobmanager rejects it, 3 if it found no
    jobmanager within taskmanager.registration.timeout.
    """
    try:
        configuration = _configuration(options, {})
        find, token = _jobmanager_and_token(address, configuration, _given_token(token_file))
        from penstock.taskexecutor.worker.host import TaskExecutorHost

        _log_to_standard_error()
        served = TaskExecutorHost(
            find,
            ControlCredentials.of_session(token.encode(), insists=TLS_ENABLED.read(configuration)),
            slots or SLOTS_PER_EXECUTOR.read(configuration) or os.cpu_count() or 1,
            bind_host=host,
            temp_dirs=TEMPORARY_FOLDERS.read(configuration),
            registration_timeout_s=REGISTRATION_TIMEOUT.read(configuration) / 1000,
        )
    except (ConfigurationError, DependencyError) as error:
        raise click.ClickException(str(error)) from None
    _on_signals(served.stop)
    sys.exit(_in_a_thread("taskexecutor", served.run))


def _jobmanager_and_token(
    address: str | None, configuration: Mapping[str, str], token: str | None
) -> tuple[Callable[[], tuple[str, int] | None], str]:
    """Return the source of the jobmanager's address, and the session's token.

    Raises:
        ConfigurationError: The address or the token is missing.
    """
    if address is not None:
        where = parse_address(address)
        # A session of this machine that is named by its address needs no explicit token.
        return lambda: where, token or find_session(address).token
    services = HighAvailabilityServices.configured(configuration)
    if services is None:
        raise click.UsageError(
            "name the jobmanager by --jobmanager HOST:PORT, or set "
            f"{high_availability.TYPE.key} to find the one that leads"
        )
    if token is None:
        raise ConfigurationError(
            f"a taskexecutor that finds its jobmanager by {high_availability.TYPE.key} needs the "
            f"session's token: set {TOKEN_VARIABLE} or --token-file"
        )
    finder = services.finder()
    click.get_current_context().call_on_close(finder.close)

    def find() -> tuple[str, int] | None:
        found = finder.find()
        return None if found is None else (found.host, found.port)

    return find, token


@click.group(cls=FlagGroup)
def cluster() -> None:
    """Start, stop and list sessions of this user here."""


@cluster.command()
@click.option(
    "--target",
    type=click.Choice(["local", "spark", "standalone"]),
    default="local",
    show_default=True,
    help="Run jobs in processes of this machine (local), in Spark tasks (spark), or on "
    "taskexecutors that you start (standalone).",
)
@_NAME
@click.option("--host", help=f"Address to listen on; sets {BIND_HOST.key}.")
@click.option(
    "--port",
    type=int,
    help=f"Port to listen on; sets {RPC_PORT.key}. Default for local and spark: a free one.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Slots of the session. Required for spark; default for local: one per CPU.",
)
@_TOKEN_FILE
@_OPTIONS
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def start(
    target: str,
    name: str,
    host: str | None,
    port: int | None,
    slots: int | None,
    token_file: str | None,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start a session in the background; return when it accepts jobs."""
    if target == "standalone" and slots is not None:
        raise click.UsageError(
            "--slots needs --target local or spark; other taskexecutors have their own"
        )
    if target == "spark" and slots is None:
        raise click.UsageError("--target spark needs --slots: the number that Spark is asked for")
    arguments = ["--name", name, "--token-file", "-"]
    if target != "standalone":
        arguments += ["--slots", str(slots or os.cpu_count() or 1)]
        arguments += ["--on-spark"] if target == "spark" else []
        port = 0 if port is None else port
    for option, value in (("--host", host), ("--port", port)):
        if value is not None:
            arguments += [option, str(value)]
    for text in options:
        arguments += ["-D", text]
    try:
        check_name(name)
        configuration = _configuration(options, {} if host is None else {BIND_HOST.key: host})
        given = _given_token(token_file)
        # Checked here, where it is known whether other jobmanagers share the token.
        _leadership(configuration, given)
        token = given or new_token().hex()
    except (ConfigurationError, DependencyError) as error:
        raise click.ClickException(str(error)) from None
    started = start_jobmanager(arguments, token, name)
    if as_json:
        fields = {"name": name, "jobmanager": started.address, "pid": started.pid}
        print_json({**fields, "log": started.log, "leader": started.leader})
        return
    if started.address is None:
        click.echo(f"Session {name}: the jobmanager stands by, {started.leader} leads;", nl=False)
        click.echo(f" process {started.pid}, log {started.log}")
        return
    click.echo(f"Session {name}: jobmanager at {started.address}, process", nl=False)
    click.echo(f" {started.pid}, log {started.log}")
    click.echo(f"penstock run --target session --cluster {name} PROGRAM.py")


@cluster.command()
@click.argument("named", metavar="[NAME|HOST:PORT]", required=False)
def stop(named: str | None) -> None:
    """Stop a session: its jobs, its taskexecutors and its jobmanager."""
    from penstock.rpc.session_messages import Done, StopSession
    from penstock.session.session_client import SessionClient

    try:
        session = find_session(named, how_to_name="penstock cluster stop NAME")
        process = None if session.pid is None else psutil.Process(session.pid)
        with SessionClient(session) as client:
            client.ask(StopSession(), Done)
            client.await_end()
    except PenstockError as error:
        raise click.ClickException(str(error)) from None
    except psutil.Error:
        raise click.ClickException(f"session {session.name} has just ended") from None
    if process is not None and not _came(lambda: not _runs(process), STOP_TIMEOUT_S):
        raise click.ClickException(f"process {process.pid} has not ended within 60 s")
    click.echo(f"Session {session.name} is stopped.")


@cluster.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_sessions(as_json: bool) -> None:
    """List the sessions of this user on this machine."""
    found = [
        {"name": one.name, "jobmanager": f"{one.host}:{one.port}", "pid": one.pid}
        for one in sessions()
    ]
    if as_json:
        print_json(found)
        return
    for one in found:
        click.echo(f"{one['name']}  {one['jobmanager']}  process {one['pid']}")


def _configuration(options: Iterable[str], extra: dict[str, str]) -> dict[str, str]:
    given = configured(options)
    for key, value in extra.items():
        if given.setdefault(key, value) != value:
            raise click.UsageError(
                f"-D {key}={given[key]} contradicts another flag, which sets it to {value}"
            )
    configuration = {**process_configuration().to_dict(), **given}
    check_options(configuration)
    _refuse_options_of_jobs(given)
    return configuration


def _refuse_options_of_jobs(given: Iterable[str]) -> None:
    """Reject options of jobs and unknown keys: jobs get both from their programs.

    Options of file systems are allowed, because the session stores files itself.

    Raises:
        ConfigurationError: An option would have no effect.
    """
    for key in filter(is_own, given):
        raise no_such_option(key)
    for key in _options_of_jobs(given):
        raise ConfigurationError(
            f"{key} is an option of jobs, which get it from their programs: set it by "
            "penstock run -D, or in the configuration of the machine that runs the program"
        )


def _options_of_jobs(keys: Iterable[str]) -> list[str]:
    options, shared = options_by_key(), options_of(file_systems)
    return [
        key
        for key in keys
        if key in options and options[key].scope == "job" and options[key] not in shared
    ]


def _given_token(file: str | None) -> str | None:
    """Return the token from a file or the environment, and remove it from the environment.

    Otherwise workers would inherit the variable.
    """
    from_environment = os.environ.pop(TOKEN_VARIABLE, None)
    if file is not None:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        return check_token(text, "--token-file")
    return None if from_environment is None else check_token(from_environment, TOKEN_VARIABLE)


def _log_to_standard_error() -> None:
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)


def _in_a_thread(name: str, serve: Callable[[], T]) -> T:
    """Run ``serve`` in a thread and return its result.

    Signal handlers run in the main thread, between two of its steps. They must not set a lock or an
    event that the main thread is waiting for.
    """
    served: Future[T] = Future()

    def run() -> None:
        try:
            served.set_result(serve())
        except BaseException as error:
            served.set_exception(error)

    serving = threading.Thread(target=run, name=name)
    with SignalWaker() as waker:
        served.add_done_callback(lambda _: waker.wake())
        serving.start()
        while not served.done():
            waker.wait()
        serving.join()
    return served.result()


def _on_signals(end: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _came(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(0.05)
    return True
