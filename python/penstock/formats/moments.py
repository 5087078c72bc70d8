"""Instants in the notations of JSON and CSV."""

from __future__ import annotations

import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from penstock.common.time import Instant
from penstock.common.values.instant_text import instant_of_text
from penstock.common.values.instants import datetime_of, micros_of
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable


def read_instant(value: Any) -> Instant:
    """Parse a text with a zone, or a number of seconds, as an Instant, like Flink's JSON.

    Raises:
        Misfit: The value is neither.
    """
    try:
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            nanos = (Decimal(value) * 10**9).to_integral_value(ROUND_FLOOR)
            return Instant(*divmod(int(nanos), 10**9))
        if isinstance(value, str):
            return instant_of_text(value.strip())
    except (ArithmeticError, ValueError):
        pass
    raise Misfit(f"{value!r:.100} is not an instant such as 2020-01-31T23:59:00Z") from None


def moment_reader(between: str) -> Callable[[Any], datetime.datetime]:
    """Return a function that parses datetimes with a zone, to UTC; it raises Misfit."""

    def read(value: Any) -> datetime.datetime:
        try:
            if not isinstance(value, str):
                raise ValueError
            found = datetime.datetime.fromisoformat(value.strip())
            if found.tzinfo is None:
                raise ValueError
            return datetime_of(micros_of(found))
        except (ValueError, OverflowError):
            raise Misfit(
                f"{value!r:.100} is not a time with a zone such as 2020-01-31{between}23:59:00Z"
            ) from None

    return read


def timestamp_text(between: str, behind: str) -> Callable[[datetime.datetime], str]:
    """Return a function that formats times as Java does: with the necessary fraction digits only.

    A datetime with a zone is converted to UTC, which ``behind`` must denote.
    """

    def write(value: datetime.datetime) -> str:
        if value.tzinfo is not None:
            if not behind:
                raise Misfit(
                    f"{value} has a zone, and a field of this type has none; declare "
                    "Types.TIMESTAMP_LTZ()"
                )
            value = datetime_of(micros_of(value)).replace(tzinfo=None)
        text = value.replace(microsecond=0).isoformat(sep=between)
        digits = f"{value.microsecond:06}".rstrip("0")
        return f"{text}.{digits}{behind}" if digits else f"{text}{behind}"

    return write
