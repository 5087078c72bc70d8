"""Rate limiters of a source: records per second, or between two checkpoints."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import checkpointing
from penstock.common.options.pipeline import RUNTIME_MODE
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph import operators

#: A source that is asked for more records a second than this emits several at a time.
_SHORTEST_WAIT_MS: Final = 1.0


class RateLimiter(ABC):
    """Says how many records a subtask may emit now."""

    @abstractmethod
    def available(self) -> int:
        """Number of records that may be emitted now."""

    @abstractmethod
    def take(self, number: int) -> None:
        """So many are emitted, at most those that were available."""

    @abstractmethod
    def due_ms(self) -> float:
        """Time until records are available, in ms; infinite if only a checkpoint helps."""

    @abstractmethod
    def notify_checkpoint_complete(self) -> None:
        """A checkpoint is complete."""


class PerSecond(RateLimiter):
    """A bucket that fills evenly and holds what fits into a second."""

    def __init__(self, records_per_second: float, now_ms: Callable[[], int]) -> None:
        """Starts with one record.

        Args:
            records_per_second: Of this subtask.
            now_ms: The time in ms.
        """
        self._per_ms = records_per_second / 1000
        self._most = max(1.0, records_per_second)
        self._now_ms = now_ms
        self._filled = 1.0
        self._at_ms = now_ms()

    def available(self) -> int:
        """The whole records in the bucket."""
        now_ms = self._now_ms()
        # A clock that was set back makes nothing available, nor takes anything.
        passed_ms = max(0, now_ms - self._at_ms)
        self._at_ms = now_ms
        self._filled = min(self._most, self._filled + passed_ms * self._per_ms)
        return int(self._filled)

    def take(self, number: int) -> None:
        """Takes them out."""
        self._filled -= number

    def due_ms(self) -> float:
        """Until the bucket holds a record."""
        return max(_SHORTEST_WAIT_MS, (1 - self._filled) / self._per_ms)

    def notify_checkpoint_complete(self) -> None:
        """Of no concern."""


class PerCheckpoint(RateLimiter):
    """A bucket that is full again whenever a checkpoint is complete."""

    def __init__(self, records_per_checkpoint: int) -> None:
        """Starts full; the number is that of this subtask."""
        self._most = records_per_checkpoint
        self._filled = records_per_checkpoint

    def available(self) -> int:
        """Number of tokens in the bucket."""
        return self._filled

    def take(self, number: int) -> None:
        """Takes them out."""
        self._filled -= number

    def due_ms(self) -> float:
        """Unknown."""
        return math.inf

    def notify_checkpoint_complete(self) -> None:
        """Fills the bucket."""
        self._filled = self._most


def limiter_of(descriptor: operators.DataGeneratorSource, context: Any) -> RateLimiter | None:
    """The limiter of a subtask, None where there is no limit.

    Args:
        descriptor: The source.
        context: The context of its operator.

    Raises:
        InvalidProgramError: The rate per checkpoint is one that this job cannot keep.
    """
    environment = context.environment
    parallelism = environment.parallelism
    named = f"the source {context.name!r}"
    if descriptor.records_per_second is not None:
        return PerSecond(descriptor.records_per_second / parallelism, context.processing_time.now)
    number = descriptor.records_per_checkpoint
    if number is None:
        return None
    configuration = environment.configuration
    is_batch = RUNTIME_MODE.read(configuration) == "BATCH"
    if is_batch or checkpointing.INTERVAL.read(configuration) is None:
        raise InvalidProgramError(
            f"{named} emits {number} elements per checkpoint, and the job takes no checkpoints: "
            "call enable_checkpointing, in STREAMING mode"
        )
    share, larger = divmod(number, parallelism)
    if share == 0:
        raise InvalidProgramError(
            f"{named} emits {number} elements per checkpoint, fewer than it has subtasks "
            f"({parallelism}): one for each is the least"
        )
    return PerCheckpoint(share + (1 if environment.subtask < larger else 0))
