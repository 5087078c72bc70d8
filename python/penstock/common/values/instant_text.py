"""Instants in ISO 8601, of all years: `datetime` has only the years from 1 to 9999."""

from __future__ import annotations

import datetime
import re
from typing import Final

from penstock.common.time import Instant

#: The calendar repeats after 400 years.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097

_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()

_TEXT: Final = re.compile(
    r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)[T ]"
    r"(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)([.,](?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d)(:?(?P<seconds>\d\d))?)?)",
    re.ASCII,
)


def instant_text(instant: Instant) -> str:
    """Return an instant like `java.time.Instant`: in UTC, with 0, 3, 6 or 9 digits of a second."""
    cycles, seconds = divmod(instant.seconds, _CYCLE_DAYS * 86_400)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    year = moment.year + _CYCLE_YEARS * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    fraction = f"{instant.nanos:09}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{sign}{abs(year):04}{moment:-%m-%dT%H:%M:%S}{'.' * bool(fraction)}{fraction}Z"


def instant_of_text(text: str, *, is_before_christ: bool = False) -> Instant:
    """Return the instant of a date, a time and an offset, as ``2020-01-31T23:59:00.5+01:00``.

    Args:
        text: The text.
        is_before_christ: True if the year is BC: 1 BC is the year before the year 1.

    Raises:
        ValueError: The text has another format.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an instant such as 2020-01-31T23:59:00Z")
    part = found.groupdict("0")
    cycles, year = divmod(int(part["year"]), _CYCLE_YEARS)
    if is_before_christ:
        cycles, year = divmod(1 - int(part["year"]), _CYCLE_YEARS)
    # `datetime` has no year 0, but an equivalent one.
    day = datetime.date(year + _CYCLE_YEARS, int(part["month"]), int(part["day"]))
    time = datetime.time(int(part["hour"]), int(part["minute"]), int(part["second"]))
    days = day.toordinal() - _EPOCH_DAY + (cycles - 1) * _CYCLE_DAYS
    seconds = days * 86_400 + time.hour * 3600 + time.minute * 60 + time.second
    offset = int(part["hours"]) * 3600 + int(part["minutes"]) * 60 + int(part["seconds"])
    seconds -= -offset if part["sign"] == "-" else offset
    return Instant(seconds, int(part["fraction"].ljust(9, "0")))
