"""Writers that buffer entries, and send them in batches by a thread.

A `BufferingWriter` decides when to send; a `BatchingWriter` also retries entries that a busy
service did not accept.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connectors.writer_sink import SinkWriter
from penstock.errors import SinkError
from penstock.external.background import ServerThreads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

EntryT = TypeVar("EntryT")


@dataclass(frozen=True)
class BatchLimits:
    """The limits of a batch, and its retries.

    Attributes:
        max_entries: The largest number of entries in a batch; 0 for no limit.
        max_bytes: The largest size of a batch, unless one entry is larger; 0 for no limit.
        interval_ms: The longest time that an entry is buffered, in ms; 0 for no limit.
        max_retries: The number of retries.
        delay_ms: The delay before the first retry, in ms.
        is_exponential: Whether the delay doubles with each further retry.
        longest_delay_ms: The longest delay before a retry, in ms; 0 for no limit.
        flushes_at_checkpoints: Whether a checkpoint waits until all entries are sent.
    """

    max_entries: int = 0
    max_bytes: int = 0
    interval_ms: int = 0
    max_retries: int = 0
    delay_ms: int = 0
    is_exponential: bool = True
    longest_delay_ms: int = 0
    flushes_at_checkpoints: bool = True


@dataclass(frozen=True)
class Unsent(Generic[EntryT]):
    """Entries that the service did not accept, and that are to be retried.

    Attributes:
        entries: The entries, in order.
        reason: The service's response, or the error of the connection.
        cause: The exception, if there was one.
    """

    entries: Sequence[EntryT]
    reason: str
    cause: BaseException | None = None


class BufferingWriter(SinkWriter[Any], Generic[EntryT]):
    """Buffers entries, and sends them by a thread.

    Args:
        name: The name of the thread.
        limits: The limits of a batch.

    Attributes:
        threads: The thread that sends.
    """

    def __init__(self, name: str, limits: BatchLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: list[EntryT] = []
        self._bytes = 0
        self._failure: BaseException | None = None
        self.threads = ServerThreads(name)
        self._clock: threading.Thread | None = None
        if limits.interval_ms > 0:
            self._clock = threading.Thread(target=self._tick, name=f"{name}-clock", daemon=True)
            self._clock.start()

    @abstractmethod
    def send_all(self, entries: Sequence[EntryT]) -> None:
        """Send entries; called in the thread.

        Raises:
            SinkError: The service did not accept an entry.
        """

    @abstractmethod
    def release(self) -> None:
        """Close the connections; no call is running."""

    def cut_short(self) -> None:
        """Abort a call that waits for the service; called from another thread."""

    def keep(self, entries: Sequence[EntryT], size_bytes: int = 0) -> None:
        """Buffer entries for the same batch; if the batch is full, wait until it is sent.

        Args:
            entries: The entries.
            size_bytes: The size of all entries; 0 if only their number is limited.

        Raises:
            SinkError: The service did not accept this or an earlier batch.
        """
        limits = self._limits
        if 0 < limits.max_bytes < self._bytes + size_bytes:
            self._send_now()
        with self._lock:
            self._entries.extend(entries)
            self._bytes += size_bytes
            is_full = 0 < limits.max_entries <= len(self._entries)
        if is_full or 0 < limits.max_bytes <= self._bytes:
            self._send_now()

    def flush(self, end_of_input: bool) -> None:
        """Send the buffered entries, and wait until the service has accepted them."""
        if end_of_input or self._limits.flushes_at_checkpoints:
            self._send_now()

    def close(self) -> None:
        """Drop the buffered entries and close the connections."""
        self.threads.close(self.release, self.cut_short)
        if self._clock is not None:
            self._clock.join()

    def _send_now(self) -> None:
        self.threads.call(self._send_kept)

    def _tick(self) -> None:
        """Send entries whose interval is over; the next call reports a failure."""
        sending: Future[None] | None = None
        while not self.threads.closed.wait(self._limits.interval_ms / 1000):
            if sending is None or sending.done():
                sending = self.threads.submit(self._send_kept)

    # In the thread --------------------------------------------------------------------------------

    def _send_kept(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._lock:
            entries, self._entries, self._bytes = self._entries, [], 0
        if entries:
            try:
                self.send_all(entries)
            except BaseException as error:
                self._failure = error
                raise


class BatchingWriter(BufferingWriter[EntryT]):
    """Buffers entries, sends them by a thread, and retries if the service is busy.

    Args:
        name: The name of the thread.
        place: The service, for errors.
        limits: The limits of a batch.
    """

    def __init__(self, name: str, place: str, limits: BatchLimits) -> None:
        self._place = place
        super().__init__(name, limits)

    @abstractmethod
    def send(self, entries: Sequence[EntryT]) -> Unsent[EntryT] | None:
        """Send entries; called in the thread.

        Returns:
            The entries to retry; None if the service accepted all.

        Raises:
            SinkError: The service rejects an entry permanently.
        """

    def send_all(self, entries: Sequence[EntryT]) -> None:
        """Send entries until the service has accepted all; called in the thread.

        Raises:
            SinkError: The service rejects an entry, or no retry succeeds.
        """
        limits, closed, delay_ms = self._limits, self.threads.closed, self._limits.delay_ms
        sending = partial(self.send, entries)
        for tries_left in range(limits.max_retries, -1, -1):
            unsent = sending()
            if unsent is None:
                return
            if tries_left == 0 or closed.is_set():
                tries = limits.max_retries - tries_left + 1
                raise SinkError(
                    f"{self._place} did not accept {len(unsent.entries)} of {len(entries)} "
                    f"entries, tried {tries} times: {unsent.reason}"
                ) from unsent.cause
            logger.warning(
                "%s did not accept %d of %d entries: %s; retrying in %d ms",
                self._place,
                len(unsent.entries),
                len(entries),
                unsent.reason,
                delay_ms,
            )
            closed.wait(delay_ms / 1000)
            if limits.is_exponential:
                delay_ms = min(2 * delay_ms, limits.longest_delay_ms or 2 * delay_ms)
            sending = partial(self.send, unsent.entries)
