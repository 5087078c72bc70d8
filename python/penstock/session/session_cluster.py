"""The jobmanager of a session: a Dispatcher that outlives its jobs."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from penstock.common.options.cluster import (
    BIND_HOST,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    MAX_ENDED_JOBS,
    REGISTRATION_TIMEOUT,
    RPC_PORT,
    SESSION,
    TARGET,
)
from penstock.common.options.rest import PORT as REST_PORT
from penstock.errors import ConfigurationError
from penstock.high_availability.leader_address import publish_address
from penstock.jobmaster.dispatcher import Dispatcher
from penstock.monitoring.monitoring import Monitoring
from penstock.rest.requirement import require_rest
from penstock.rpc.host_messages import ROLE_HOST, ROLE_HOST_HEARTBEAT
from penstock.rpc.session_messages import ROLE_CLIENT
from penstock.session.client_service import ClientService
from penstock.session.files import SessionAddress, SessionFile, check_name
from penstock.session.host_driver import HostDriver
from penstock.session.job_graph_store import JobGraphStore
from penstock.session.sealing import Seal
from penstock.taskexecutor.worker.host import TaskExecutorHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from penstock.errors import LeadershipLostError
    from penstock.high_availability.leader_election import LeaderElectionService
    from penstock.jobmaster.workers.resource_manager import WorkerExit

    class Hosts(Protocol):
        """Taskexecutors elsewhere that a session starts and ends."""

        def start(self, address: tuple[str, int], token: str) -> None:
            """Start; from now on the session accepts them."""

        def retire(self) -> None:
            """Start no more of them."""

        def stop(self) -> None:
            """End the remaining ones."""


logger = logging.getLogger(__name__)


def prepare() -> None:
    """Import what a leading jobmanager needs at once, so that jobs do not wait for it."""
    with contextlib.suppress(ImportError):  # a missing package is reported where it is needed
        import penstock.metrics.process
        import penstock.rest.server  # noqa: F401


class SessionCluster:
    """One session, from its start to its end in this process."""

    def __init__(
        self,
        name: str,
        configuration: Mapping[str, str],
        token: str,
        slots: int = 0,
        leadership: LeaderElectionService | None = None,
        elsewhere: Hosts | None = None,
    ) -> None:
        """Open the port.

        Args:
            name: Its name on this machine.
            configuration: Options of the cluster.
            token: The token that every peer must prove.
            slots: Slots of the host of workers in this process; no host if 0.
            leadership: This process's leadership, by which it resumes the jobs of a former
                jobmanager, and leaves its own to the next; None if they end with this one.
            elsewhere: Taskexecutors that are started and ended with the session, if any.

        Raises:
            ConfigurationError: An option is malformed or not available here, or the port is taken.
            CheckpointStorageError: The data of a former jobmanager cannot be read.
            LeadershipLostError: Another one leads by now.
        """
        check_name(name)
        options = dict(configuration)
        for option in (TARGET, SESSION):
            options.pop(option.key, None)
        if not REST_PORT.is_set(options):
            require_rest("a session has a REST interface")
            options[REST_PORT.key] = "0"
        self.leadership_lost: LeadershipLostError | None = None
        self._leadership = leadership
        self._elsewhere = elsewhere
        self._is_stopped_for_good = False
        self._ending = threading.Event()
        self._local: TaskExecutorHost | None = None
        self._local_thread: threading.Thread | None = None
        hosts: list[HostDriver] = []
        heartbeat_ms = (HEARTBEAT_INTERVAL.read(options), HEARTBEAT_TIMEOUT.read(options))

        def new_driver(on_exit: Callable[[WorkerExit], None]) -> HostDriver:
            hosts.append(HostDriver(on_exit, *heartbeat_ms))
            return hosts[0]

        port = RPC_PORT.read(options)
        bind_host = BIND_HOST.read(options)
        try:
            self.dispatcher = Dispatcher(
                options, new_driver, Monitoring, token=token.encode(), port=port, serves_many=True
            )
        except OSError as error:
            raise ConfigurationError(
                f"no jobmanager can listen at {bind_host}:{port} ({RPC_PORT.key}): {error}"
            ) from error
        self._hosts = hosts[0]
        self._stored = (
            None
            if leadership is None
            else JobGraphStore(leadership, MAX_ENDED_JOBS.read(options), Seal(token))
        )
        self._clients = ClientService(name, self.dispatcher, self._stop_all, self._stored)
        self.dispatcher.gateway.end_session = self._stop_all
        self.dispatcher.register(ROLE_HOST, self._hosts.serve)
        self.dispatcher.register(ROLE_HOST_HEARTBEAT, self._hosts.serve_heartbeat)
        self.dispatcher.register(ROLE_CLIENT, self._clients.serve)
        _, port = self.dispatcher.address
        near = self.dispatcher.settings.near_host
        self.address = SessionAddress(name, near, port, token)
        self._file = SessionFile(self.address)
        if slots > 0:
            self._local = TaskExecutorHost(
                lambda: (near, port),
                self.address.credentials,
                slots,
                temp_dirs=self.dispatcher.settings.temp_dirs,
                registration_timeout_s=REGISTRATION_TIMEOUT.read(options) / 1000,
            )

    def start(self) -> None:
        """Accept jobs and hosts from now on.

        Raises:
            ConfigurationError: A session of the name runs, or the REST interface cannot start.
        """
        if self._leadership is not None:
            self._leadership.on_lost(self._lost)
        self.dispatcher.start()
        try:
            self._file.write(takes_over=self._leadership is not None)
            if self._leadership is not None:
                self._clients.take_up()
                publish_address(self._leadership, *self.dispatcher.address)
        except BaseException:
            self.stop()
            raise
        if self._local is not None:
            self._local_thread = threading.Thread(
                target=self._local.run, name="taskexecutor", daemon=True
            )
            self._local_thread.start()
        if self._elsewhere is not None:
            self._elsewhere.start(self.dispatcher.address, self.address.token)
        logger.info("session %s: jobmanager at %s:%d", self.address.name, *self.dispatcher.address)

    def wait(self) -> None:
        """Wait until `end` is called."""
        self._ending.wait()

    def end(self) -> None:
        """Make `wait` return; any thread, also from a signal's handler."""
        self._ending.set()

    def stop(self) -> None:
        """End jobs and workers, and close the port; return when they are gone."""
        self._file.remove()
        if self._stored is not None and self._is_stopped_for_good:
            self._clients.cancel_all(self.dispatcher.settings.shutdown_grace_ms / 1000)
        self._clients.retire()
        if self._local is not None:
            self._local.retire()
        if self._elsewhere is not None:
            self._elsewhere.retire()
            self._hosts.end_hosts()
        self.dispatcher.stop()
        self._clients.close()
        if self._local is not None:
            self._local.stop()
        if self._elsewhere is not None:
            self._elsewhere.stop()
        if self._local_thread is not None:
            self._local_thread.join()
        if self._stored is not None and self._leadership is not None:
            self._stored.close()
            self._leadership.release()

    def _lost(self, error: LeadershipLostError) -> None:
        """End everything that runs here: another jobmanager may lead."""
        self.leadership_lost = error
        self._clients.retire()
        self.dispatcher.leadership_lost(error)
        self.end()

    def _stop_all(self) -> None:
        self._is_stopped_for_good = True
        self._hosts.end_hosts()
        self.end()
