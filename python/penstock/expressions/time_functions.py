"""Functions of times, ``field("ts").dt.hour()``.

They follow the type of the stream: `datetime.datetime`, `datetime.date` and `datetime.time` as they
are, and integers as milliseconds since the epoch, in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.time import Time
from penstock.errors import InvalidProgramError
from penstock.expressions import nodes as n
from penstock.expressions.expression import Expression

if TYPE_CHECKING:
    from penstock.common.time import Duration


class TimeFunctions:
    """Parts of a time."""

    __slots__ = ("_expression",)

    def __init__(self, expression: Expression) -> None:
        """Use ``expression.dt``."""
        self._expression = expression

    def year(self) -> Expression[int]:
        """Return the year."""
        return self._call("year")

    def month(self) -> Expression[int]:
        """Return the month, from 1."""
        return self._call("month")

    def day(self) -> Expression[int]:
        """Return the day of the month, from 1."""
        return self._call("day")

    def weekday(self) -> Expression[int]:
        """Return the day of the week, from 1 for Monday to 7 for Sunday."""
        return self._call("weekday")

    def hour(self) -> Expression[int]:
        """Return the hour, 0 to 23."""
        return self._call("hour")

    def minute(self) -> Expression[int]:
        """Return the minute, 0 to 59."""
        return self._call("minute")

    def second(self) -> Expression[int]:
        """Return the second, 0 to 59."""
        return self._call("second")

    def millisecond(self) -> Expression[int]:
        """Return the millisecond, 0 to 999."""
        return self._call("millisecond")

    def microsecond(self) -> Expression[int]:
        """Return the microsecond, 0 to 999,999."""
        return self._call("microsecond")

    def floor(self, size: Duration | Time) -> Expression[int]:
        """Round down to a multiple of a duration, in ms.

        Raises:
            InvalidProgramError: The duration is not positive.
        """
        millis = size.to_milliseconds() if isinstance(size, Time) else size.to_millis()
        if millis <= 0:
            raise InvalidProgramError(f"floor() takes a positive duration, not {size!r}")
        operands = (self._expression.node, n.Literal(millis))
        return Expression(n.Call("dt.floor", operands))

    def _call(self, name: str) -> Expression:
        return Expression(n.Call(f"dt.{name}", (self._expression.node,)))
