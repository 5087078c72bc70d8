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

#: The shortest wait; at higher rates, a source emits several records at a time.
_SHORTEST_WAIT_MS: Final = 1.0


class RateLimiter(ABC):
    """Decides how many records a subtask may emit now."""

    @abstractmethod
    def available(self) -> int:
        """Return the number of records that may be emitted now."""

    @abstractmethod
    def take(self, number: int) -> None:
        """Count emitted records, at most the available number."""

    @abstractmethod
    def due_ms(self, number: int = 1) -> float:
        """Return the time until so many records are available, in ms.

        It is infinite until a checkpoint.
        """

    @abstractmethod
    def notify_checkpoint_complete(self) -> None:
        """Handle a complete checkpoint."""


class PerSecond(RateLimiter):
    """A token bucket that fills evenly and holds the records of a second."""

    def __init__(
        self, records_per_second: float, now_ms: Callable[[], int], batch_size: int = 1
    ) -> None:
        """Create a limiter with one available record.

        Args:
            records_per_second: The rate of this subtask.
            now_ms: Returns the time in ms.
            batch_size: The number of records that are emitted at a time, for which the bucket
                has room at any rate.
        """
        self._per_ms = records_per_second / 1000
        self._most = max(float(batch_size), records_per_second)
        self._now_ms = now_ms
        self._filled = 1.0
        self._at_ms = now_ms()

    def available(self) -> int:
        """Return the whole number of tokens."""
        now_ms = self._now_ms()
        # If the clock was set back, the number of tokens does not change.
        passed_ms = max(0, now_ms - self._at_ms)
        self._at_ms = now_ms
        self._filled = min(self._most, self._filled + passed_ms * self._per_ms)
        return int(self._filled)

    def take(self, number: int) -> None:
        """Remove tokens."""
        self._filled -= number

    def due_ms(self, number: int = 1) -> float:
        """Return the time until the bucket has so many tokens."""
        return max(_SHORTEST_WAIT_MS, (number - self._filled) / self._per_ms)

    def notify_checkpoint_complete(self) -> None:
        """Do nothing: checkpoints have no effect."""


class PerCheckpoint(RateLimiter):
    """A token bucket that every complete checkpoint fills."""

    def __init__(self, records_per_checkpoint: int) -> None:
        """Create a full bucket; the number is that of this subtask."""
        self._most = records_per_checkpoint
        self._filled = records_per_checkpoint

    def available(self) -> int:
        """Return the number of tokens."""
        return self._filled

    def take(self, number: int) -> None:
        """Remove tokens."""
        self._filled -= number

    def due_ms(self, number: int = 1) -> float:  # noqa: ARG002
        """Return infinity: the time of the next checkpoint is unknown."""
        return math.inf

    def notify_checkpoint_complete(self) -> None:
        """Fill the bucket."""
        self._filled = self._most


def limiter_of(descriptor: operators.DataGeneratorSource, context: Any) -> RateLimiter | None:
    """Return the limiter of a subtask, or None without a limit.

    Args:
        descriptor: The source.
        context: The context of its operator.

    Raises:
        InvalidProgramError: The job cannot apply the rate per checkpoint.
    """
    environment = context.environment
    parallelism = environment.parallelism
    named = f"the source {context.name!r}"
    if descriptor.records_per_second is not None:
        return PerSecond(
            descriptor.records_per_second / parallelism,
            context.processing_time.now,
            descriptor.batch_size or 1,
        )
    number = descriptor.records_per_checkpoint
    if number is None:
        return None
    configuration = environment.configuration
    is_batch = RUNTIME_MODE.read(configuration) == "BATCH"
    if is_batch or checkpointing.INTERVAL.read(configuration) is None:
        raise InvalidProgramError(
            f"{named} emits {number} records per checkpoint, but the job takes no checkpoints: "
            "call enable_checkpointing, in STREAMING mode"
        )
    share, larger = divmod(number, parallelism)
    if share == 0:
        raise InvalidProgramError(
            f"{named} emits {number} records per checkpoint, fewer than it has subtasks "
            f"({parallelism}): each needs at least one"
        )
    return PerCheckpoint(share + (1 if environment.subtask < larger else 0))
