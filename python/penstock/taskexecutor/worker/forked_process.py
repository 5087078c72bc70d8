"""The host's side of the server from which workers are forked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from penstock.taskexecutor.worker.fork_server import HAS_THREADS, MAX_MESSAGE_BYTES
from penstock.taskexecutor.worker.log_relay import LogRelay

if TYPE_CHECKING:
    from collections.abc import Mapping

FORK_TIMEOUT_S = 300.0
"""As long as jobs wait for slots: on a busy machine, the imports take a while."""
END_TIMEOUT_S = 5.0
_GONE = -9
"""Exit code of workers whose server has ended: they end with it."""


class UnforkableError(OSError):
    """No worker can be forked here: an import, such as one of ``sitecustomize``, starts threads."""


class Surroundings(NamedTuple):
    """Environment in which a process starts.

    Attributes:
        interpreter: Path of the Python interpreter.
        working_directory: None for the host's own.
        environment: All environment variables of the process.
    """

    interpreter: str
    working_directory: str | None
    environment: Mapping[str, str]


class ForkedProcess:
    """A worker forked by a server; it has the ``subprocess.Popen`` methods WorkerProcess uses."""

    def __init__(self, server: _ForkServer, pid: int, stdin: IO[bytes], stderr: IO[bytes]) -> None:
        """Create a handle of process ``pid`` of ``server`` with the host's ends of its pipes."""
        self.pid = pid
        self.stdin = stdin
        self.stderr = stderr
        self._server = server
        self._code: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: The process still runs after ``timeout`` seconds.
        """
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
        assert self._code is not None, "set before the event"
        return self._code

    def kill(self) -> None:
        """Kill the process if it has not ended."""
        self._server.kill(self.pid)

    def has_ended(self, code: int) -> None:
        """Record the exit code that the server reported."""
        self._code = code
        self._ended.set()


class ForkServers:
    """The servers of one host, one for each kind of surroundings; any thread."""

    def __init__(self) -> None:
        """Create an empty set; servers start on first use."""
        self._lock = threading.Lock()
        self._servers: list[tuple[Surroundings, _ForkServer]] = []
        self._is_closed = False

    def fork(self, surroundings: Surroundings) -> ForkedProcess:
        """Fork a worker.

        Raises:
            UnforkableError: Workers of these surroundings must be started.
            OSError: The server cannot be started, or could not fork.
        """
        return self._server(surroundings).fork()

    def prepare(self, surroundings: Surroundings) -> None:
        """Start the server, which begins to import.

        Raises:
            OSError: The server cannot be started.
        """
        self._server(surroundings)

    def _server(self, surroundings: Surroundings) -> _ForkServer:
        with self._lock:
            if self._is_closed:
                raise OSError("this host starts no more workers")
            self._servers = [(s, server) for s, server in self._servers if not server.is_lost]
            server = next((x for s, x in self._servers if s == surroundings), None)
            if server is None:
                server = _ForkServer(surroundings)
                self._servers.append((surroundings, server))
        return server

    def close(self) -> None:
        """End the servers and their remaining workers for good; pending forks fail."""
        with self._lock:
            self._is_closed = True
            servers, self._servers = self._servers, []
        for _, server in servers:
            server.close()


class _ForkServer:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._asked: dict[int, Future[int]] = {}
        self._workers: dict[int, ForkedProcess] = {}
        self._early: dict[int, int] = {}
        self._number = 0
        self._has_answered = False
        self._end_of_it: OSError | None = None
        self._started: Future[subprocess.Popen[bytes]] = Future()
        # The kernel ends the server with the thread that started it, so this thread stays.
        self._thread = threading.Thread(target=self._run, name="fork server", daemon=True)
        self._thread.start()
        self._process = self._started.result()

    @property
    def is_alive(self) -> bool:
        return self._end_of_it is None

    @property
    def is_lost(self) -> bool:
        """True if another server may do better."""
        return not self.is_alive and not isinstance(self._end_of_it, UnforkableError)

    def fork(self) -> ForkedProcess:
        their_input, our_input = os.pipe()
        our_error, their_error = os.pipe()
        asked: Future[int] = Future()
        try:
            with self._lock:
                if self._end_of_it is not None:
                    raise self._end_of_it
                self._number += 1
                self._asked[self._number] = asked
                message = json.dumps({"fork": self._number}).encode()
                # If the server is ending, the request fails with its exit code and log.
                with suppress(BrokenPipeError, ConnectionResetError):
                    socket.send_fds(self._socket, [message], [their_input, their_error])
            pid = asked.result(FORK_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            os.close(our_input)
            os.close(our_error)
            if isinstance(error, UnforkableError):
                raise
            raise OSError(
                f"a worker could not be forked: {str(error) or 'no answer in time'}"
            ) from error
        finally:
            os.close(their_input)
            os.close(their_error)
        worker = ForkedProcess(self, pid, os.fdopen(our_input, "wb"), os.fdopen(our_error, "rb"))
        with self._lock:
            code = self._early.pop(pid, None)
            if code is None and not self.is_alive:
                code = _GONE
            if code is None:
                self._workers[pid] = worker
        if code is not None:
            worker.has_ended(code)
        return worker

    def kill(self, pid: int) -> None:
        with self._lock:
            if pid in self._workers and self.is_alive:
                with suppress(BrokenPipeError, ConnectionResetError):  # it ends with its server
                    self._socket.send(json.dumps({"kill": pid}).encode())

    def close(self) -> None:
        with self._lock:
            if self.is_alive:
                # The server handles what was sent before, such as kills.
                self._socket.shutdown(socket.SHUT_WR)
        # One that still imports has no workers, and does not read yet.
        self._thread.join(END_TIMEOUT_S if self._has_answered else 0.0)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()

    def _run(self) -> None:
        try:
            process = self._start()
        except OSError as error:
            self._end(error)
            self._started.set_exception(error)
            return
        finally:
            self._theirs.close()
        assert process.stderr is not None
        log = LogRelay(process.stderr)
        self._started.set_result(process)
        while data := self._receive():
            self._has_answered = True
            self._handle(json.loads(data))
        code = process.wait()
        log.close()
        kind = UnforkableError if code == HAS_THREADS else OSError
        self._end(kind(f"the fork server has ended with exit code {code}; its log:\n{log.tail}"))

    def _end(self, reason: OSError) -> None:
        with self._lock:
            self._end_of_it = reason
            self._socket.close()
            workers, self._workers = list(self._workers.values()), {}
            asked, self._asked = list(self._asked.values()), {}
        for future in asked:
            future.set_exception(reason)
        for worker in workers:
            worker.has_ended(_GONE)

    def _start(self) -> subprocess.Popen[bytes]:
        interpreter, working_directory, environment = self._surroundings
        descriptor = self._theirs.fileno()
        return subprocess.Popen(
            [interpreter, "-m", "penstock.taskexecutor", "--fork-server", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=working_directory,
            env=cast("dict[str, str]", environment),
            pass_fds=[descriptor],
            process_group=0,
        )

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(MAX_MESSAGE_BYTES)
        except OSError:
            return b""

    def _handle(self, message: dict[str, int | str]) -> None:
        if "ended" in message:
            pid, code = int(message["ended"]), int(message["code"])
            with self._lock:
                worker = self._workers.pop(pid, None)
                if worker is None:
                    self._early[pid] = code
            if worker is not None:
                worker.has_ended(code)
            return
        with self._lock:
            asked = self._asked.pop(int(message.get("forked", message.get("refused", 0))))
        if "forked" in message:
            asked.set_result(int(message["pid"]))
        else:
            asked.set_exception(OSError(str(message["error"])))
