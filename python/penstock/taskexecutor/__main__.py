"""Entry point of a TaskExecutor process: ``python -m penstock.taskexecutor``.

The process reads its launch line from standard input and serves until the driver ends it.  It
never outlives its parent: the kernel sends SIGTERM when the parent dies, the pipe on standard
input ends, and the connection to the driver breaks; whichever is noticed first.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.options.cluster import LOG_LEVEL, LOG_LEVELS
from penstock.dependencies.job_folder import JobFolder
from penstock.taskexecutor.logs.forwarder import LogForwarder
from penstock.taskexecutor.logs.standard_streams import flush_streams, say
from penstock.taskexecutor.worker import lazy_pandas
from penstock.taskexecutor.worker.child_processes import (
    ENDING_SIGNALS,
    default_signals_in_children,
    end_children,
    mark_children,
)
from penstock.taskexecutor.worker.launch import (
    EXIT_FAILED,
    EXIT_LOST_DRIVER,
    LaunchSpec,
    extend_sys_path,
    read_launch_spec,
)
from penstock.taskexecutor.worker.standard_input import detach_standard_input

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_NO_LEVEL = logging.CRITICAL + 1
END_TIMEOUT_S = 8.0

#: New containers between two garbage collections; Python's default of 700 is less than one buffer
#: of records.
YOUNG_OBJECTS = 10_000


def main() -> int:
    """Run one TaskExecutor, or the fork server; return the exit code."""
    if len(sys.argv) == 3 and sys.argv[1] == "--fork-server":
        from penstock.taskexecutor.worker.fork_server import serve

        _ask_for_death_signal()
        code = serve(int(sys.argv[2]), run_worker)
        # Nothing is left to clean up.  A normal exit takes 15 ms, for which the end of a job waits.
        flush_streams()
        os._exit(code)
    return run_worker()


def run_worker() -> int:
    """Run one TaskExecutor, configured by the launch line on standard input."""
    # Ctrl-C reaches the whole foreground process group: ending the job is the driver's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A crash in C shows its place in the user's code; the other threads would push that out of the
    # log's tail, which the driver receives.
    faulthandler.enable(all_threads=False)
    launch = read_launch_spec(sys.stdin.buffer)
    parent_pipe = detach_standard_input()
    os.environ["PENSTOCK_RUNTIME"] = launch.runtime
    # Arrow's own allocator returns freed memory and clears it again for each large batch.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    extend_sys_path(launch.sys_path, launch.program_path)
    # Held so that the last user removes the folder, even if the host is killed.
    folder = None if launch.job_folder is None else JobFolder(Path(launch.job_folder))
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A line is one write, also with PYTHONUNBUFFERED: others write to the same terminal.
        reconfigure(line_buffering=True, write_through=False)
    log = _configure_logging(launch)
    lazy_pandas.install()

    from penstock.taskexecutor.worker.task_executor import TaskExecutor

    executor = TaskExecutor(launch, log)
    # Imported objects stay: no collection needs to check them again.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)

    def leave() -> None:
        if folder is not None:
            folder.leave()

    def end(reason: str) -> None:
        executor.stop(reason)
        # Stuck user code must not keep the process alive: cleaning up has this long.
        time.sleep(END_TIMEOUT_S)
        end_children(has_host=False)
        leave()
        os._exit(EXIT_LOST_DRIVER)

    # Python's handlers run in this thread, which may not be woken by a signal delivered to another:
    # the interpreter writes to the socket in whichever thread gets it.
    signals, their_end = socket.socketpair()
    their_end.setblocking(False)
    signal.set_wakeup_fd(their_end.fileno(), warn_on_full_buffer=False)
    for number in ENDING_SIGNALS:
        signal.signal(number, lambda *_: None)
    default_signals_in_children()
    mark_children()
    threading.Thread(
        target=_watch, args=(parent_pipe, signals, end), name="parent watch", daemon=True
    ).start()
    try:
        code = 0 if executor.run() else EXIT_LOST_DRIVER
    except BaseException:
        say(traceback.format_exc())
        code = EXIT_FAILED
    end_children(has_host=code == 0)
    leave()
    flush_streams()
    # A normal exit would wait for threads stuck in user code, or fail over the thread that reads
    # standard input.
    os._exit(code)


def _configure_logging(launch: LaunchSpec) -> LogForwarder:
    """Send all log records to the driver, from the driver's levels on."""
    for name, level in launch.log_levels.items():
        logging.getLogger(name).setLevel(level)
    chosen = LOG_LEVEL.read(launch.config)
    named = LOG_LEVELS.read(launch.config)
    for name, level_name in (named if chosen is None else {"": chosen, **named}).items():
        logging.getLogger(name).setLevel(_NO_LEVEL if level_name == "OFF" else level_name)
    forwarder = LogForwarder(launch.executor_id)
    logging.getLogger().addHandler(forwarder)
    return forwarder


def _watch(pipe: int, signals: socket.socket, end: Callable[[str], None]) -> None:
    """End the worker on a signal, at the end of its standard input, or if the parent dies."""
    parent = os.getppid()
    if sys.platform == "linux":
        _ask_for_death_signal()
        if os.getppid() != parent:
            end("the parent process died")
            return
    with selectors.PollSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        selector.register(signals, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if signals in ready:
                end("terminated by a signal")
            elif not os.read(pipe, 4096):
                end("the parent closed standard input")


def _ask_for_death_signal() -> None:
    """Make the kernel send SIGTERM to this process when its parent dies (Linux)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


if __name__ == "__main__":
    sys.exit(main())
