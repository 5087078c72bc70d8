"""When an entry of a state expires: the options of a StateTtlConfig in plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class TimeToLive:
    """How long entries live after they were last written or, if so configured, read.

    Attributes:
        ttl_ms: Time after which an entry has expired.
        on_read: Whether reading makes an entry live longer.
        return_expired: Whether an expired entry may be read until it was removed.
        now: The clock, in ms.
    """

    ttl_ms: int
    on_read: bool
    return_expired: bool
    now: Callable[[], int]

    @staticmethod
    def of(config: Any, now: Callable[[], int]) -> TimeToLive | None:
        """Reads a ``StateTtlConfig``; None when there is none or it is disabled."""
        if config is None:
            return None
        update_type = config.get_update_type().name
        if update_type == "Disabled":
            return None
        return TimeToLive(
            ttl_ms=config.get_ttl().to_milliseconds(),
            on_read=update_type == "OnReadAndWrite",
            return_expired=config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp",
            now=now,
        )

    def expired(self, written_ms: int) -> bool:
        """Whether an entry written or touched at ``written_ms`` has expired."""
        return written_ms + self.ttl_ms <= self.now()


class Aged:
    """A value and the time in ms at which it was last written or touched."""

    __slots__ = ("time_ms", "value")

    def __init__(self, value: Any, time_ms: int) -> None:
        """Keeps both."""
        self.value = value
        self.time_ms = time_ms

    def __repr__(self) -> str:
        return f"Aged({self.value!r}, {self.time_ms})"
