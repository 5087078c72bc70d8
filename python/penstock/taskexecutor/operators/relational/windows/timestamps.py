"""Python values of window bounds."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from penstock.table import types

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema

_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class TimeValues:
    """Creates the values of window_start, window_end and window_time.

    Attributes:
        is_zoned: Whether window_time is a TIMESTAMP_LTZ.
    """

    def __init__(self, schema: Schema) -> None:
        """Create the values for a schema that ends with window columns."""
        self.is_zoned = isinstance(schema.fields[-1].type, types.LocalZonedTimestampType)

    def window(self, start: int, end: int, utc_time: int) -> tuple[object, ...]:
        """Return the values for local bounds and the UTC time of window_time, in ms."""
        first, last = _EPOCH + start * _MILLISECOND, _EPOCH + end * _MILLISECOND
        if self.is_zoned:
            time = (_EPOCH + utc_time * _MILLISECOND).replace(tzinfo=datetime.UTC)
            return first, last, time
        return first, last, last - _MILLISECOND
