"""Where in the user's program a call came from."""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

#: Code without a file that a reader could open.
_NO_FILE = ("<string>", "<frozen")


def user_location() -> str | None:
    """The innermost line on this thread's stack that is neither penstock's nor Python's own.

    Returns:
        File, line and text of the line, or None when there is no such line.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame):
            file, line = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(file, line).strip()
            return f"{file}:{line}" + (f": {text}" if text else "")
        frame = frame.f_back
    return None


def _is_users(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package == "penstock" or (package != "__main__" and package in sys.stdlib_module_names):
        return False
    return not frame.f_code.co_filename.startswith(_NO_FILE)
