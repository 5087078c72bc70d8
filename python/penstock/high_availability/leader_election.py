"""Leader election among several drivers of a cluster id (internals M48).

However the drivers agree on it, a leader has an epoch, and what it writes arrives as long as that
epoch is the last one: so a former leader can write nothing any more, however late it hears of its
end.
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

    Everything that is written goes through ``publish`` and ``delete``, and fails once another
    driver leads.  Its text names the place, for people.
    """

    def __init__(self) -> None:
        """Leads nothing yet."""
        self._lock = threading.Lock()
        self._given_up = threading.Event()
        self._is_leader = False
        self._lost: list[Callable[[LeadershipLostError], None]] = []
        self._end_of_it: LeadershipLostError | None = None
        self._stands_by: Callable[[str], None] | None = None
        self._known_leader: str | None = None

    @abstractmethod
    def acquire(self) -> bool:
        """Waits until no other driver leads, then leads.

        Returns:
            Whether it does; False when it was told to give up.

        Raises:
            CheckpointStorageError: The place cannot be used.
        """

    def give_up(self) -> None:
        """Makes `acquire` return; any thread, also from a signal's handler.

        A leader goes on leading.
        """
        self._given_up.set()

    def on_lost(self, callback: Callable[[LeadershipLostError], None]) -> None:
        """Has ``callback`` called, by some thread, when another driver may lead."""
        with self._lock:
            end = self._end_of_it
            if end is None:
                self._lost.append(callback)
        if end is not None:
            callback(end)

    def on_standby(self, callback: Callable[[str], None]) -> None:
        """Has ``callback`` told who leads while `acquire` waits, by that thread."""
        self._stands_by = callback

    @abstractmethod
    def release(self) -> None:
        """Leads no more; the next driver need not wait."""

    # ---- what leaders leave to each other ----------------------------------------------------

    @abstractmethod
    def publish(self, name: str, data: bytes) -> None:
        """Makes a file appear with all of its content.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: It cannot be written, or it is not known whether it was.
        """

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file; None when there is none.

        Raises:
            LeadershipLostError: Another driver leads.
            CheckpointStorageError: It is damaged.
            OSError: It cannot be read.
        """

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """The names of files that begin so, sorted.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: They cannot be read.
        """

    @abstractmethod
    def names_by_age(self, prefix: str, suffix: str) -> list[str]:
        """The names of files that begin and end so, those first that were written first.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: They cannot be read.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Deletes a file, if it is there.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: It cannot be deleted.
        """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The number of the leadership; that of a later one is greater.

        Raises:
            LeadershipLostError: Another driver leads.
        """

    # ---- for the ways to agree -----------------------------------------------------------------

    def _check_leads(self) -> None:
        with self._lock:
            if not self._is_leader:
                raise LeadershipLostError(f"this driver does not lead {self}")

    def _wait_for(self, leader: str) -> None:
        """Tells that another driver leads, once for each."""
        if leader == self._known_leader:
            return
        self._known_leader = leader
        logger.warning("%s leads %s: this driver stands by", leader, self)
        if self._stands_by is not None:
            self._stands_by(leader)

    def _end(self, reason: str) -> LeadershipLostError:
        """Takes it for lost, and tells of it once."""
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
