"""A pytest plugin for tests that run commands or programs in their own process and change it.

`penstock run` sets the environment of its program, its arguments, the search path, finders of
modules and `sys.excepthook`, which the next test would inherit.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from penstock.common import job_listener
from support.leftovers import MARK

#: Set by pytest for each phase of a test, and by the check for leftovers for all tests.
OWN_VARIABLES = {"PYTEST_CURRENT_TEST", MARK}
#: Modules of a program that commands run in this process.
PROGRAMS = "pyflink"


def environment() -> dict[str, str]:
    """Return the environment without the variables that are set for every test."""
    return {key: value for key, value in os.environ.items() if key not in OWN_VARIABLES}


def _restore_environment(before: dict[str, str]) -> None:
    own = {key: os.environ[key] for key in OWN_VARIABLES if key in os.environ}
    os.environ.clear()
    os.environ.update(before | own)


def programs() -> dict[str, Any]:
    """Return the modules of a program: the main module, and those of `pyflink`."""
    names = [name for name in sys.modules if name.partition(".")[0] == PROGRAMS]
    return {name: sys.modules[name] for name in ["__main__", *names]}


def _restore_programs(before: dict[str, Any]) -> None:
    for name in programs().keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(owner, name), lambda before: setattr(owner, name, before)


def _list(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Read and restore a list that is mutated in place or replaced."""

    def restore(before: tuple[list[Any], list[Any]]) -> None:
        same, content = before
        same[:] = content
        setattr(owner, name, same)

    return lambda: (getattr(owner, name), [*getattr(owner, name)]), restore


#: State that commands and programs in this process change, and how to restore it.
RESTORED: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [
    (environment, _restore_environment),
    (programs, _restore_programs),
    (os.getcwd, os.chdir),
    _list(sys, "argv"),
    _list(sys, "path"),
    _list(sys, "meta_path"),
    _attribute(sys, "excepthook"),
    _list(job_listener, "PROCESS_LISTENERS"),
    (lambda: logging.getLogger("penstock").level, logging.getLogger("penstock").setLevel),
]


@contextlib.contextmanager
def restored_process() -> Iterator[None]:
    """Restore the state that commands and programs change in their process."""
    before = [(restore, read()) for read, restore in RESTORED]
    try:
        yield
    finally:
        for restore, state in before:
            restore(state)


@pytest.fixture
def own_process() -> Iterator[None]:
    """Let the test run commands and programs as if it owned the process."""
    with restored_process():
        yield
