"""Objects with threads, sockets or files, which belong to the process that creates them."""

from __future__ import annotations

import os

from penstock.serialization.pure.uncopied import Uncopied


class OfOneProcess(Uncopied):
    """An object that a forked child leaves alone.

    The child has a copy of it without its threads.  A lock that another thread held at the fork is
    never released there, so a method that ends the object checks the process before it locks.
    """

    def __init__(self) -> None:
        self._process_id = os.getpid()

    @property
    def _is_left(self) -> bool:
        """Return whether this process is not the one that created the object."""
        return os.getpid() != self._process_id
