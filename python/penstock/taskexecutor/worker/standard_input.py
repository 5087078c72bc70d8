"""The standard input of a worker: there is none, and a read raises an explanation.

The pipe on which a worker is started stays open as long as its parent lives.  User code that reads
it would wait forever, and so would a debugger.
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import sys
import termios
from typing import Final, NoReturn

from penstock.errors import IllegalStateError

logger = logging.getLogger(__name__)

_WORDS: Final = (
    "a worker has no standard input: give the program what it needs as arguments, or read files"
)
NO_DEBUGGER: Final = (
    "a worker has no terminal for a debugger: run the program with --target in-process, or "
    "execution.target: in-process, or name a remote debugger by PYTHONBREAKPOINT"
)


class NoStandardInput(io.TextIOBase):
    """Standard input that raises EOFError with an explanation."""

    encoding = "utf-8"
    errors = "strict"
    mode = "r"
    name = "<stdin>"

    @property
    def buffer(self) -> NoStandardInput:
        """Return this object, also for bytes."""
        return self

    def readable(self) -> bool:
        """Return True: a caller may ask for input."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, which is that of /dev/null."""
        return 0

    def isatty(self) -> bool:
        """Return False."""
        return False

    def read(self, size: int | None = -1) -> NoReturn:
        """Raise EOFError."""
        del size
        self._end()

    def read1(self, size: int = -1) -> NoReturn:
        """Raise EOFError."""
        del size
        self._end()

    def readinto(self, buffer: object) -> NoReturn:
        """Raise EOFError."""
        del buffer
        self._end()

    def readline(self, size: int | None = -1) -> NoReturn:
        """Raise EOFError."""
        del size
        self._end()

    def readlines(self, hint: int | None = -1) -> NoReturn:
        """Raise EOFError."""
        del hint
        self._end()

    def __next__(self) -> NoReturn:
        self._end()

    def _end(self) -> NoReturn:
        # Debuggers treat the end of the file as a command, and do not show the message.
        logger.warning("user code reads standard input: %s", _WORDS)
        raise EOFError(_WORDS)


def detach_standard_input() -> int:
    """Detach standard input from user code and its children.

    Returns:
        The descriptor of the former standard input; children do not inherit it.
    """
    detached = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = NoStandardInput()
    _leave_terminal()
    if not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = _no_debugger
    return detached


def _leave_terminal() -> None:
    """Detach from the driver's terminal, if there is one.

    A background process that asks for a password there is stopped, and seems to hang.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return  # there is no terminal
    try:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
    finally:
        os.close(terminal)


def _no_debugger(*_: object, **__: object) -> NoReturn:
    raise IllegalStateError(f"breakpoint(): {NO_DEBUGGER}")
