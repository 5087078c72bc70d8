"""Check of Python values that are used in expressions."""

from __future__ import annotations

import datetime
import decimal
from typing import Final

_KINDS: Final = (
    bool,
    int,
    float,
    str,
    bytes,
    bytearray,
    decimal.Decimal,
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
    list,
    tuple,
    dict,
    type(None),
)


def check_literal(value: object) -> None:
    """Check that SQL has a type for a Python value.

    Raises:
        AttributeError: SQL has none; PyFlink raises this error, too.
    """
    if isinstance(value, _KINDS) or type(value).__name__ == "Row":
        return
    raise AttributeError(
        f"There is no SQL type for the Python value {value!r} of type {type(value).__name__}: use "
        "numbers, texts, bytes, booleans, dates, times, lists or dictionaries of them"
    )
