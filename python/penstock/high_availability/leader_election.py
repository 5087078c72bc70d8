"""Leader election among several drivers of a cluster id (internals M48).

By whatever mechanism the drivers elect it, a leader has an epoch, and its writes succeed only while
that epoch is the last one: a former leader can write nothing, however late it learns of its end.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.errors import LeadershipLostError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class LeaderElectionService(ABC):
    """The right of this process to run the jobs of a cluster id.

    All writes go through ``publish`` and ``delete``, and fail once another driver leads.  ``str``
    of a service names the place, for people.
    """

    def __init__(self) -> None:
        """Create a service without leadership."""
        self._lock = threading.Lock()
        self._given_up = threading.Event()
        self._is_leader = False
        self._lost: list[Callable[[LeadershipLostError], None]] = []
        self._end_of_it: LeadershipLostError | None = None
        self._stands_by: Callable[[str], None] | None = None
        self._known_leader: str | None = None

    @abstractmethod
    def acquire(self) -> bool:
        """Wait until no other driver leads, then lead.

        Returns:
            Whether this driver leads; False after `give_up`.

        Raises:
            CheckpointStorageError: The place cannot be used.
        """

    def give_up(self) -> None:
        """Make `acquire` return; any thread, even from a signal handler.

        A leader keeps its leadership.
        """
        self._given_up.set()

    def on_lost(self, callback: Callable[[LeadershipLostError], None]) -> None:
        """Register a callback for the loss of leadership; any thread may call it."""
        with self._lock:
            end = self._end_of_it
            if end is None:
                self._lost.append(callback)
        if end is not None:
            callback(end)

    def on_standby(self, callback: Callable[[str], None]) -> None:
        """Register a callback for the leader's name while `acquire` waits; its thread calls it."""
        self._stands_by = callback

    @abstractmethod
    def release(self) -> None:
        """End the leadership, so that the next driver need not wait."""

    # ---- records for later leaders ----------------------------------------------------------

    @abstractmethod
    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears with its whole content.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The file cannot be written, or the outcome is unknown.
        """

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None.

        Raises:
            LeadershipLostError: Another driver leads.
            CheckpointStorageError: The file is damaged.
            OSError: The file cannot be read.
        """

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """Return the names of files with a prefix, sorted.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The names cannot be read.
        """

    @abstractmethod
    def names_by_age(self, prefix: str, suffix: str) -> list[str]:
        """Return the names of files with a prefix and a suffix, oldest first.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The names cannot be read.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The file cannot be deleted.
        """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The number of the leadership; later leaderships have greater ones.

        Raises:
            LeadershipLostError: Another driver leads.
        """

    # ---- for the ways to agree -----------------------------------------------------------------

    def _check_leads(self) -> None:
        with self._lock:
            if not self._is_leader:
                raise LeadershipLostError(f"this driver does not lead {self}")

    def _wait_for(self, leader: str) -> None:
        """Report that another driver leads, once for each."""
        if leader == self._known_leader:
            return
        self._known_leader = leader
        logger.warning("%s leads %s: this driver stands by", leader, self)
        if self._stands_by is not None:
            self._stands_by(leader)

    def _end(self, reason: str) -> LeadershipLostError:
        """End a lost leadership and report the loss once."""
        error = LeadershipLostError(f"this driver no longer leads {self}: {reason}")
        with self._lock:
            was_leader, self._is_leader = self._is_leader, False
            if self._end_of_it is None:
                self._end_of_it = error
            callbacks, self._lost = self._lost, []
        if was_leader:
            logger.error("%s", error)
        for callback in callbacks:
            callback(error)
        return error
