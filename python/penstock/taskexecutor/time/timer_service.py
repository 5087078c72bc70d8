"""The timer service of functions on streams without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from penstock.datastream.timerservice import TimerService
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeOnlyService(TimerService):
    """Time without timers, for functions on streams without keys."""

    def __init__(self, processing_time: Callable[[], int], watermark: Callable[[], int]) -> None:
        """Create a view of a clock and of the current watermark."""
        self._processing_time = processing_time
        self._watermark = watermark

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock."""
        return self._processing_time()

    def current_watermark(self) -> int:
        """Return the event time reached, -2**63 before the first watermark."""
        return self._watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Reject the call.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Reject the call.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Reject the call.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Reject the call.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(timestamp)


def _refuse(timestamp: int) -> NoReturn:
    msg = (
        f"timers (here for {timestamp}) need a keyed stream: call key_by() before the function; "
        "records of a broadcast stream have no key, so only the other side sets timers"
    )
    raise InvalidProgramError(msg)
