"""A pytest plugin that fails tests which change the process in which the next test runs.

After each test, and after each module, the state that all tests of a process share must be
unchanged: environment, working directory, search path, finders, hooks, handlers of signals and
logs.  A test that changes it uses `monkeypatch`, or `own_process` if penstock makes the change.

Tests that need processes are excluded: a Spark or a server that several of them share changes the
process for as long as it runs.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.lanes import FOLDERS, needs
from support.own_process import environment, programs

#: Prefixes of variables that penstock, Python or Flink's tools read.
OWN_PREFIXES = ("PENSTOCK", "PYTHON", "FLINK", "TZ", "TMPDIR")
#: Except SIGALRM, which pytest-timeout uses to end hanging tests.
SIGNALS = [
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGPROF),
]


def _own_finders() -> list[Any]:
    # Libraries, such as copies of six, install finders of their own when they are imported.
    return [one for one in sys.meta_path if type(one).__module__.partition(".")[0] == "penstock"]


def _handlers_of_logs() -> list[logging.Handler]:
    # pytest installs its own handlers for the phases of a test.
    handlers = logging.getLogger().handlers
    return [one for one in handlers if not type(one).__module__.startswith("_pytest.")]


#: The state that a test must leave unchanged, and functions that read it.
CHECKED: dict[str, Callable[[], Any]] = {
    "working directory": os.getcwd,
    "sys.argv": lambda: [*sys.argv],
    "sys.path": lambda: [*sys.path],
    "sys.meta_path": _own_finders,
    "sys.excepthook": lambda: sys.excepthook,
    "sys.unraisablehook": lambda: sys.unraisablehook,
    "threading.excepthook": lambda: threading.excepthook,
    "modules of programs": programs,
    "handlers of signals": lambda: {one.name: signal.getsignal(one) for one in SIGNALS},
    "handlers of the root logger": _handlers_of_logs,
    "level of the root logger": lambda: logging.getLogger().level,
    "logging.disable": lambda: logging.root.manager.disable,
    "tempfile.tempdir": lambda: tempfile.tempdir,
    "sys.getswitchinterval()": sys.getswitchinterval,
    "sys.getrecursionlimit()": sys.getrecursionlimit,
    "sys.gettrace()": sys.gettrace,
    "socket.getdefaulttimeout()": socket.getdefaulttimeout,
    "gc.isenabled()": gc.isenabled,
    "gc.get_threshold()": gc.get_threshold,
}


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Check that the state of the process is the same afterwards.

    Raises:
        AssertionError: Something has changed; the message shows it before and after.
    """
    variables = environment()
    before = {name: read() for name, read in CHECKED.items()}
    yield
    changed = [*_changed_variables(variables, environment())]
    for name, read in CHECKED.items():
        after = read()
        if after != before[name]:
            changed.append(f"{name}: {before[name]!r} became {after!r}")
    assert not changed, "state of the process was changed and not restored:\n" + "\n".join(changed)


def _changed_variables(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for name in before.keys() | after.keys():
        # Libraries set their own variables when they are imported.
        is_own = name in before or name.startswith(OWN_PREFIXES)
        if is_own and before.get(name) != after.get(name):
            yield f"environment variable {name}: {before.get(name)!r} became {after.get(name)!r}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--unchanged-process",
        action="store_true",
        help="fail tests of one process that change it: environment, paths, hooks, handlers",
    )


@pytest.fixture(scope="module", autouse=True)
def process_is_as_before_the_module(request: pytest.FixtureRequest) -> Iterator[None]:
    is_left_out = not FOLDERS.isdisjoint(request.path.parts)
    with _checked(request, is_left_out):
        yield


@pytest.fixture(autouse=True)
def process_is_as_before_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    with _checked(request, needs(request.node, "process")):
        yield


def _checked(
    request: pytest.FixtureRequest, is_left_out: bool
) -> contextlib.AbstractContextManager[None]:
    if is_left_out or not request.config.getoption("unchanged_process"):
        return contextlib.nullcontext()
    return unchanged_process()
