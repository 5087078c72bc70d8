"""Timestamps that users' functions give."""

from __future__ import annotations

from typing import Any


def whole_number_of(timestamp: Any) -> int:
    """A timestamp in whole milliseconds: a fraction is cut off, as by PyFlink.

    Raises:
        TypeError: It is no number.
    """
    if type(timestamp) is int:
        return timestamp
    if not hasattr(type(timestamp), "__int__"):  # int() would read texts
        raise TypeError(f"a timestamp is a number of milliseconds, not {timestamp!r}")
    return int(timestamp)
