"""Look up processes that tests start."""

from __future__ import annotations

import contextlib

import psutil

#: What begins the command of a server, which would outlive a killed pytest.  The thread that starts
#: the server is the parent.
DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")


def children(word: str, of: psutil.Process | None = None) -> list[psutil.Process]:
    """Return the living descendants of a process (default: this one) with the argument ``word``."""
    found = []
    for process in (of or psutil.Process()).children(recursive=True):
        # A process may end between the listing and the query, and is then a zombie.
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in process.cmdline():
                found.append(process)
    return found


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those of the processes that have not ended; a zombie has."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def listens_at(port: int) -> bool:
    """Return whether this process listens at a port; once it is free another process may."""
    connections = psutil.Process().net_connections("inet")
    return any(one.laddr.port == port for one in connections if one.status == psutil.CONN_LISTEN)
