"""The process from which a machine's workers are forked: it has imported what they need.

``python -m penstock.taskexecutor --fork-server DESCRIPTOR`` serves the socket behind the descriptor
from one thread, since only the forking thread exists in the child.  The host sends first
(`penstock.taskexecutor.worker.forked_process`); a message is one line of JSON:

====================================  =========================================================
``{"fork": N}`` and two descriptors   forks a worker, whose standard input and error these become
``{"kill": PID}``                     kills it if it has not ended
``{"forked": N, "pid": PID}``         answers the first
``{"refused": N, "error": TEXT}``     or does so
``{"ended": PID, "code": CODE}``      it has ended; negative for a signal
====================================  =========================================================

The server ends with its socket, and its workers with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.logs.standard_streams import flush_streams

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MESSAGE_BYTES: Final = 4096

HAS_THREADS: Final = 71
"""Exit code of a server that cannot fork, since an import started threads: a fork has only one."""

_PRELOADED: Final = (
    "penstock.taskexecutor.worker.metric_sender",
    "penstock.taskexecutor.worker.task_executor",
    "penstock.taskexecutor.task.stream_task",
    "penstock.taskexecutor.checkpointing.task_checkpoints",
    "penstock.taskexecutor.operators.process",
    "penstock.taskexecutor.operators.reduce",
    "penstock.taskexecutor.operators.stateless",
    "penstock.taskexecutor.sources.collection",
    "penstock.taskexecutor.sinks.collect",
    "penstock.datastream.functions",
    "penstock.graph.job_code",
    "penstock.graph.job_graph",
    "penstock.graph.partitioners",
    "penstock.graph.wiring",
    "penstock.rpc.native_heartbeat",
    "cloudpickle",
    # Encodes host names.
    "encodings.idna",
)
"""Modules that nearly every worker imports; it imports others itself."""

_NOT_PRELOADED: Final = frozenset({"ArrayCodec", "RecordBatchCodec"})
"""Names of the data plane whose libraries start threads, which do not survive a fork."""


def serve(descriptor: int, main: Callable[[], int]) -> int:
    """Fork workers until the host closes the socket.

    Args:
        descriptor: Descriptor of a socket that keeps message boundaries.
        main: Runs a worker and returns its exit code.
    """
    # Ctrl-C reaches the foreground process group: ending the job is the driver's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    # Reference counts and garbage collection would otherwise copy the pages of every object.
    gc.freeze()
    if (threads := len([*Path("/proc/self/task").iterdir()])) != 1 or threading.active_count() != 1:
        print(
            f"a process of {threads} threads cannot be forked: an import started some",
            file=sys.stderr,
            flush=True,
        )
        return HAS_THREADS
    with socket.socket(fileno=descriptor) as host:
        return _Server(host, main).run()


def preload() -> None:
    """Import what nearly every worker needs."""
    for name in _PRELOADED:
        importlib.import_module(name)
    from penstock import network

    for name in network.__all__:
        if name not in _NOT_PRELOADED:
            getattr(network, name)


class _Server:
    def __init__(self, host: socket.socket, main: Callable[[], int]) -> None:
        self._host = host
        self._main = main
        self._pids: set[int] = set()
        self._news, self._wake = socket.socketpair()

    def run(self) -> int:
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._host, selectors.EVENT_READ)
            selector.register(self._news, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._news:
                        self._news.recv(4096)
                        self._reap()
                    elif not self._serve():
                        return 0

    def _serve(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._host, MAX_MESSAGE_BYTES, 2)
        if not data:
            return False
        message = json.loads(data)
        if "kill" in message:
            if message["kill"] in self._pids:  # else it has ended, and the number may be reused
                os.kill(message["kill"], signal.SIGKILL)
            return True
        number = message["fork"]
        try:
            pid = os.fork()
        except OSError as error:
            self._say({"refused": number, "error": str(error)})
        else:
            if pid == 0:
                self._become_worker(*descriptors)
            self._pids.add(pid)
            self._say({"forked": number, "pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _become_worker(self, standard_input: int, standard_error: int) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            os.dup2(standard_input, 0)
            os.dup2(standard_error, 2)
            for descriptor in (standard_input, standard_error):
                os.close(descriptor)
            for sock in (self._host, self._news, self._wake):
                sock.close()
            del sys.argv[1:]  # user code may read them
            code = self._main()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            # The server's exit handlers must not run in its children.
            flush_streams()
            os._exit(code)

    def _reap(self) -> None:
        """Reap all ended workers: one signal may stand for several."""
        for pid in list(self._pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._pids.remove(pid)
                self._say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    def _say(self, message: dict[str, object]) -> None:
        with suppress(BrokenPipeError):  # the host has gone, which the next read detects
            self._host.send(json.dumps(message).encode())
