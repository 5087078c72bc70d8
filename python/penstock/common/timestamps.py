"""Timestamps that users' functions give."""

from __future__ import annotations

from typing import Any

from penstock.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE


def timestamp_of(given: Any, giver: Any) -> int:
    """A timestamp in whole milliseconds: a fraction is cut off, as by PyFlink.

    Args:
        given: What a user's function gave.
        giver: The function, or the name of what was called with it, for messages.

    Raises:
        TypeError: It is no number.
        OverflowError: It needs more than 64 bits, or is not finite.
    """
    number: int = given
    if type(given) is not int:
        if not hasattr(type(given), "__int__"):  # int() would read texts
            raise TypeError(_refusal(given, giver))
        try:
            number = int(given)
        except (ValueError, OverflowError) as error:
            raise OverflowError(_refusal(given, giver)) from error
    if not MIN_LONG_VALUE <= number <= MAX_LONG_VALUE:
        raise OverflowError(_refusal(given, giver))
    return number


def _refusal(given: Any, giver: Any) -> str:
    name = getattr(giver, "__qualname__", giver)
    return f"{name}: expected milliseconds as a number of 64 bits, got {given!r}"
