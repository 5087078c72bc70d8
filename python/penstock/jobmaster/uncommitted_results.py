"""Results that a collect sink has sent and that no complete checkpoint includes yet."""

from __future__ import annotations

from collections import deque

from penstock.errors import CorruptStreamError


class UncommittedResults:
    """The batches of a collect sink between their arrival and the checkpoint that includes them.

    Batches are numbered from the sink's first one, across its attempts.  An attempt resumes at the
    number in its checkpoint: later batches of the previous attempt are dropped, and were never
    shown.  The caller holds a lock.
    """

    def __init__(self) -> None:
        """Create an empty buffer."""
        self._batches: deque[bytes] = deque()
        self._next = 0
        self._attempt = -1

    def resume(self, attempt: int, offset: int) -> list[bytes]:
        """Resume with a new attempt of the sink; return the batches that its checkpoint includes.

        Args:
            attempt: Its number; batches of earlier attempts are rejected from now on.
            offset: The number of its first batch.

        Raises:
            CorruptStreamError: A later attempt has already resumed, or batches are missing.
        """
        if attempt <= self._attempt:
            raise CorruptStreamError(f"attempt {attempt} of a collect sink comes after a later one")
        is_first = self._attempt < 0
        self._attempt = attempt
        if is_first:
            # An offset means that the job continues from a savepoint: earlier results were returned
            # to another program.
            self._next = offset
            return []
        shown = self._next - len(self._batches)
        if not shown <= offset <= self._next:
            raise CorruptStreamError(
                f"a collect sink continues with batch {offset}, but {self._next} have arrived, and "
                f"{shown} were returned"
            )
        while self._next > offset:
            self._batches.pop()
            self._next -= 1
        return self.commit(attempt, offset)

    def add(self, attempt: int, batch: bytes) -> None:
        """Add the next batch.

        Raises:
            CorruptStreamError: A later attempt has already resumed; here and below.
        """
        self._check(attempt)
        self._batches.append(batch)
        self._next += 1

    def check_complete(self, attempt: int, offset: int) -> None:
        """Check that all batches before ``offset`` have arrived.

        Raises:
            CorruptStreamError: They have not.
        """
        self._check(attempt)
        if offset != self._next:
            raise CorruptStreamError(
                f"a collect sink sent {offset} batches, but {self._next} have arrived"
            )

    def commit(self, attempt: int, offset: int) -> list[bytes]:
        """Remove and return the batches before ``offset``: a complete checkpoint includes them."""
        self._check(attempt)
        first = self._next - len(self._batches)
        return [self._batches.popleft() for _ in range(max(0, offset - first))]

    def finish(self, attempt: int) -> list[bytes]:
        """Remove and return the remaining batches: the sink has ended."""
        return self.commit(attempt, self._next)

    def _check(self, attempt: int) -> None:
        if attempt != self._attempt:
            raise CorruptStreamError(
                f"attempt {attempt} of a collect sink sends after attempt {self._attempt} began"
            )
