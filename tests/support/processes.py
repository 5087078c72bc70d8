"""Look up processes that tests start."""

from __future__ import annotations

import contextlib

import psutil


def children(word: str, of: psutil.Process | None = None) -> list[psutil.Process]:
    """The living descendants of a process (this one) that have ``word`` among their arguments."""
    found = []
    for process in (of or psutil.Process()).children(recursive=True):
        # A process may end between being listed and being asked, and be a zombie then.
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in process.cmdline():
                found.append(process)
    return found
