"""Workers at the taskexecutor processes that have registered with a session."""

from __future__ import annotations

import collections
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import CorruptStreamError
from penstock.jobmaster.workers.heartbeat_manager import HeartbeatManager
from penstock.jobmaster.workers.resource_manager import WorkerExit
from penstock.rpc.connection import Connection
from penstock.rpc.frames import read_frame
from penstock.rpc.host_messages import (
    EndHost,
    ForgetJob,
    HostAccepted,
    HostRefused,
    KillWorkers,
    RegisterHost,
    StartWorker,
    WorkerEnded,
    difference,
    from_host_decoder,
    own_versions,
)
from penstock.rpc.messages import heartbeat_decoder

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from penstock.jobmaster.workers.resource_manager import WorkerSpec
    from penstock.rpc.host_messages import FromHost

logger = logging.getLogger(__name__)

MAX_FAILURES: Final = 100
KILL_TIMEOUT_S: Final = 5.0


@dataclass
class _Host:
    """A registered taskexecutor process, and the job of each of its workers."""

    id: str
    slots: int
    connection: Connection
    workers: dict[str, bytes] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.slots - len(self.workers)


class HostDriver:
    """Assigns requested workers to hosts with free slots; the others wait.

    Earlier jobs are served first, so that of several jobs that wait for a few slots one can run.
    """

    def __init__(
        self, on_exit: Callable[[WorkerExit], None], interval_ms: int, timeout_ms: int
    ) -> None:
        """Create a driver without hosts.

        Args:
            on_exit: Called at the end of each worker.
            interval_ms: Heartbeat interval.
            timeout_ms: Time of silence after which a host is lost.
        """
        self._on_exit = on_exit
        self._times_ms = (interval_ms, timeout_ms)
        self._changed = threading.Condition()
        self._hosts: dict[str, _Host] = {}
        self._waiting: list[WorkerSpec] = []
        self._order: dict[bytes, int] = {}
        self._failures: collections.deque[str] = collections.deque(maxlen=MAX_FAILURES)
        self._stopped = False
        self._ends_hosts = False
        self._handlers: dict[type[FromHost], Callable[[_Peer, Any], None]] = {
            RegisterHost: self._register,
            WorkerEnded: self._ended,
        }
        self._heartbeats = HeartbeatManager(
            interval_ms / 1000, timeout_ms / 1000, self._heartbeat_timed_out
        )
        self._heartbeats.start()

    # ---- requests of a ResourceManager -------------------------------------------------------

    def start(self, requests: Sequence[WorkerSpec]) -> None:
        """Start workers where there are free slots, now or once there are."""
        with self._changed:
            for spec in requests:
                self._order.setdefault(spec.job_id, len(self._order))
            self._waiting.extend(requests)
            self._place()

    def places(self) -> int:
        """Return the slots of all hosts."""
        with self._changed:
            return sum(host.slots for host in self._hosts.values())

    def granted(self) -> int:
        """Return the number of workers on hosts that have not ended."""
        with self._changed:
            return sum(len(host.workers) for host in self._hosts.values())

    def failures(self) -> Sequence[str]:
        """Return the reasons of unexpected exits of workers."""
        with self._changed:
            return list(self._failures)

    def describe(self, registered: str) -> str:
        """Return the slots of all TaskExecutors, which other jobs may hold."""
        del registered
        with self._changed:
            slots = sum(host.slots for host in self._hosts.values())
            taken = sum(len(host.workers) for host in self._hosts.values())
            waiting = len(self._waiting)
            hosts = len(self._hosts)
        return (
            f"the session has {slots} slots at {hosts} taskexecutors, {taken} of them are in use, "
            f"and {waiting} more are requested: cancel other jobs, lower the parallelism, or "
            "start another `penstock taskexecutor`"
        )

    def kill(self, job_id: bytes) -> None:
        """Kill the workers of a job that have not ended."""
        self._tell(job_id, KillWorkers(job_id))

    def forget_job(self, job_id: bytes) -> None:
        """Start no more workers of an ended job, and delete its files."""
        with self._changed:
            self._waiting = [spec for spec in self._waiting if spec.job_id != job_id]
            self._order.pop(job_id, None)
            hosts = list(self._hosts.values())
        for host in hosts:
            host.connection.send(ForgetJob(job_id))

    def stop(self, grace_s: float) -> None:
        """Wait for the workers to end as requested, kill the remaining ones, and disconnect."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            if not self._changed.wait_for(self._is_idle, grace_s):
                jobs = {job for host in self._hosts.values() for job in host.workers.values()}
                for host in self._hosts.values():
                    for job_id in jobs:
                        host.connection.send(KillWorkers(job_id))
                self._changed.wait_for(self._is_idle, KILL_TIMEOUT_S)
            hosts = list(self._hosts.values())
        for host in hosts:
            if self._ends_hosts:
                host.connection.send(EndHost("the session was stopped"))
            host.connection.close_after_flush("the session ends")
            host.connection.join(1.0)
        self._heartbeats.close()

    def end_hosts(self) -> None:
        """Let the hosts end with the session, rather than search for the next one."""
        self._ends_hosts = True

    def _is_idle(self) -> bool:
        return not any(host.workers for host in self._hosts.values())

    def _tell(self, job_id: bytes, message: KillWorkers) -> None:
        with self._changed:
            hosts = [h for h in self._hosts.values() if job_id in h.workers.values()]
        for host in hosts:
            host.connection.send(message)

    def _place(self) -> None:
        """Assign waiting workers to hosts, evenly; the lock is held."""
        self._waiting.sort(key=lambda spec: self._order.get(spec.job_id, 0))
        while self._waiting and not self._stopped:
            host = max(self._hosts.values(), key=lambda one: one.free, default=None)
            if host is None or host.free <= 0:
                return
            spec = self._waiting.pop(0)
            host.workers[spec.executor_id] = spec.job_id
            launch = msgspec.json.encode(spec.launch)
            host.connection.send(StartWorker(spec.executor_id, spec.job_id, launch))

    # ---- hosts, from the threads of their connections ----------------------------------------

    def serve(self, sock: socket.socket, peer: str) -> None:
        """Serve the control connection of a host."""
        _Peer(self, sock, peer).connection.start()

    def serve_heartbeat(self, sock: socket.socket, peer: str) -> None:
        """Serve the heartbeat connection of a host."""
        try:
            body = read_frame(sock)
            hello = None if body is None else heartbeat_decoder().decode(body)
        except (OSError, CorruptStreamError) as error:
            logger.warning("dropped %s: %s", peer, error)
            hello = None
        with self._changed:
            if hello is not None and hello.executor_id in self._hosts:
                self._heartbeats.watch(hello.executor_id, sock)
                return
        sock.close()

    def _heartbeat_timed_out(self, host_id: str, reason: str) -> None:
        with self._changed:
            host = self._hosts.get(host_id)
        if host is not None:
            host.connection.close(reason)

    def received(self, peer: _Peer, received: list[FromHost]) -> None:
        """Handle a host's messages."""
        for message in received:
            self._handlers[type(message)](peer, message)

    def _register(self, peer: _Peer, message: RegisterHost) -> None:
        refusal = difference(own_versions(), message.versions, "taskexecutor")
        if refusal is None and message.slots < 1:
            refusal = f"it needs at least one slot, and has {message.slots}"
        if refusal is not None:
            logger.warning(
                "the taskexecutor %s at %s is refused: %s", message.host_id, peer, refusal
            )
            peer.connection.send(HostRefused(refusal))
            peer.connection.close_after_flush(refusal)
            return
        with self._changed:
            if self._stopped or peer.host is not None or message.host_id in self._hosts:
                peer.connection.close("it registers twice, or the session ends")
                return
            peer.host = _Host(message.host_id, message.slots, peer.connection)
            self._hosts[message.host_id] = peer.host
            peer.connection.send(HostAccepted(*self._times_ms))
            self._place()
        logger.info(
            "taskexecutor %s (pid %d) is registered with %d slots",
            message.host_id,
            message.pid,
            message.slots,
        )

    def _ended(self, peer: _Peer, message: WorkerEnded) -> None:
        with self._changed:
            if peer.host is None or peer.host.workers.pop(message.executor_id, None) is None:
                return
            end = WorkerExit(
                message.executor_id,
                message.pid,
                message.exit_code,
                message.log_tail,
                hopeless=message.hopeless,
            )
            if message.exit_code != 0:
                self._failures.append(f"{end.executor_id}: {end}")
            self._place()
            self._changed.notify_all()
            stopped = self._stopped
        if not stopped:
            self._on_exit(end)

    def lost(self, peer: _Peer, reason: str) -> None:
        """Handle the closed connection of a host."""
        host = peer.host
        if host is None:
            return
        with self._changed:
            del self._hosts[host.id]
            workers, host.workers = host.workers, {}
            self._changed.notify_all()
            stopped = self._stopped
        self._heartbeats.forget(host.id)
        if stopped:
            return
        logger.warning("taskexecutor %s is lost: %s", host.id, reason)
        for executor_id in workers:
            end = WorkerExit(executor_id, None, None, f"{host.id}: {reason}", host_lost=True)
            with self._changed:
                self._failures.append(f"{executor_id}: {end}")
            self._on_exit(end)


class _Peer:
    """A control connection, and the host that registered over it."""

    def __init__(self, driver: HostDriver, sock: socket.socket, address: str) -> None:
        self.host: _Host | None = None
        self._address = address
        self.connection = Connection(
            sock,
            from_host_decoder(),
            lambda messages: driver.received(self, messages),
            lambda reason: driver.lost(self, reason),
            f"taskexecutor {address}",
        )

    def __str__(self) -> str:
        return self._address
