"""TimerService: time and timers, as process functions see them."""

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Access to time and timers; all times are in ms since the epoch."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the machine's clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark, -2**63 before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a processing-time timer for the current key."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Register an event-time timer for the current key."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer; do nothing if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer; do nothing if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.delete_event_time_timer")
