"""The line of the user's program that made a call."""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

#: Paths of penstock's own frames; those of compiled modules have the paths of their sources.
OWN_FILES = (str(Path(__file__).parent) + os.sep, "native/penstock/", "python/penstock/")

#: Names of code without a file that a reader could open.
_NO_FILE = ("<string>", "<frozen")


def user_location() -> str | None:
    """Return the innermost line on this thread's stack outside of penstock and Python's library.

    Returns:
        File, line and text of the line; None if there is no such line.
    """
    found = user_line()
    if found is None:
        return None
    file, line = found
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text}" if text else "")


def user_line() -> tuple[str, int] | None:
    """Return the file and number of the line that `user_location` returns."""
    frame: FrameType | None = sys._getframe(1)
    # A command calls the program; what calls the command is none of the program's.
    while frame is not None and not _module_of(frame).startswith("penstock.command_line"):
        if _is_users(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def without_own_frames(error: BaseException) -> BaseException:
    """Remove penstock's own frames from the tracebacks of an exception and its causes.

    A deeply nested value has two frames for each level.
    """
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        trace = one.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(OWN_FILES):
            trace = trace.tb_next
        one.__traceback__ = trace
        pending += [one.__cause__, one.__context__]
    return error


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_users(frame: FrameType) -> bool:
    package = _module_of(frame).partition(".")[0]
    if package == "penstock" or (package != "__main__" and package in sys.stdlib_module_names):
        return False
    return not frame.f_code.co_filename.startswith(_NO_FILE)
