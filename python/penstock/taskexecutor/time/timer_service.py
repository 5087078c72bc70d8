"""The timer services that user functions see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from penstock.datastream.timerservice import TimerService
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.time.whole_numbers import whole_number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.time.timers import InternalTimerService


class KeyedTimerService(TimerService):
    """Timers of the current key, without namespaces.  Fractions of a millisecond are cut off."""

    def __init__(self, service: InternalTimerService) -> None:
        """Creates a view of ``service``."""
        self._service = service

    def current_processing_time(self) -> int:
        """The time of the machine's clock."""
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        """The event time reached, -2**63 before the first watermark."""
        return self._service.current_watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer of the machine's clock for the current key."""
        self._service.register_processing_time_timer(None, whole_number_of(timestamp))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer of event time for the current key."""
        self._service.register_event_time_timer(None, whole_number_of(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the machine's clock; nothing happens when there is none."""
        self._service.delete_processing_time_timer(None, whole_number_of(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of event time; nothing happens when there is none."""
        self._service.delete_event_time_timer(None, whole_number_of(timestamp))


class TimeOnlyService(TimerService):
    """Time without timers, for functions on streams without keys."""

    def __init__(self, processing_time: Callable[[], int], watermark: Callable[[], int]) -> None:
        """Creates a view of a clock and of the current watermark."""
        self._processing_time = processing_time
        self._watermark = watermark

    def current_processing_time(self) -> int:
        """The time of the machine's clock."""
        return self._processing_time()

    def current_watermark(self) -> int:
        """The event time reached, -2**63 before the first watermark."""
        return self._watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Refused.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Refused.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Refused.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Refused.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)


def _refuse(timestamp: int) -> NoReturn:
    msg = f"timers (here for {timestamp}) need a keyed stream: call key_by() before the function"
    raise InvalidProgramError(msg)
