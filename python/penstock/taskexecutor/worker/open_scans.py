"""The keys of scans of state that are between two pages."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.taskexecutor.task.state_reading import Places

IDLE_S: Final = 60.0
"""The time after which a scan whose next page nobody requests is forgotten."""


class _OpenScan(NamedTuple):
    attempt_id: bytes
    places: Places
    end: threading.Timer


class OpenScans:
    """The keys that scans of this worker's tasks still have to read.

    A backend may move its entries at any time, so a scan keeps the keys that it has listed: another
    list could repeat some of them and lack others.
    """

    def __init__(self) -> None:
        """Start without scans."""
        self._lock = threading.Lock()
        self._scans: dict[int, _OpenScan] = {}

    def find(self, number: int, attempt_id: bytes) -> Places | None:
        """Return the keys of a scan of a task; None if it is unknown or was forgotten.

        They stay, as a page may be requested again.
        """
        with self._lock:
            found = self._scans.get(number)
        return found.places if found is not None and found.attempt_id == attempt_id else None

    def keep(self, number: int, attempt_id: bytes, places: Places) -> int:
        """Keep the keys of a scan until its next page.

        Args:
            number: The number of the scan; 0 for one that has begun.
            attempt_id: The id of the task's attempt.
            places: The keys.

        Returns:
            The number of the scan.
        """
        number = number or secrets.randbits(52) + 1
        end = threading.Timer(IDLE_S, self.forget, (number,))
        end.daemon = True
        with self._lock:
            before = self._scans.pop(number, None)
            self._scans[number] = _OpenScan(attempt_id, places, end)
        if before is not None:
            before.end.cancel()
        end.start()
        return number

    def forget(self, number: int) -> None:
        """Forget the keys of a scan, if there are any."""
        with self._lock:
            found = self._scans.pop(number, None)
        if found is not None:
            found.end.cancel()

    def clear(self) -> None:
        """Forget all scans."""
        with self._lock:
            numbers = list(self._scans)
        for number in numbers:
            self.forget(number)
