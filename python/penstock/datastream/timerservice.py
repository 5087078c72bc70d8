"""TimerService: time and timers, as process functions see them."""

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Answers what time it is and registers timers; all times in ms since the epoch."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The time of the machine's clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time reached, -2**63 before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer of the machine's clock for the current key."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer of event time for the current key."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the machine's clock; nothing happens if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of event time; nothing happens if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.delete_event_time_timer")
