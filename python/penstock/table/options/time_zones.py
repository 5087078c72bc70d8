"""Time zones by the names that Java knows: regions, abbreviations and offsets from UTC."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from functools import cache
from typing import Final

#: ``Z``, ``+8``, ``+08:00``, ``+0800``, ``+08:00:15``, each also after UTC, GMT or UT.
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})|(\d\d):?(\d\d)|(\d\d):(\d\d):(\d\d)|(\d\d)(\d\d)(\d\d))"
)
#: The only offsets that `legacy_zone` knows: hours up to 23, and minutes.
_LEGACY_OFFSET: Final = re.compile(r"GMT([+-])(\d{1,2}?)(?::?([0-5]\d))?")
_MOST: Final = datetime.timedelta(hours=18)
#: Names that Python knows as regions, but Java does not.
_NO_REGIONS: Final = frozenset(("EST", "HST", "MST", "ROC"))
#: Java's abbreviations of three letters.
_ABBREVIATIONS: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@cache
def time_zone(name: str) -> datetime.tzinfo:
    """Return a time zone as ``ZoneId.of`` does: of a region, or ``UTC+01:00``, ``+01:00``, ``Z``.

    Raises:
        ValueError: No time zone has that name.
    """
    found = _OFFSET.fullmatch(name)
    if found is not None:
        parts = [int(part) for part in found.groups()[1:] if part is not None]
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and offset <= _MOST:
            prefix = name.partition(found[1])[0]
            shown = f"{prefix}{found[1]}{hours:02}:{minutes:02}"
            return datetime.timezone(-offset if found[1] == "-" else offset, shown)
    elif name == "Z":
        return datetime.UTC
    elif name not in _NO_REGIONS:
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError(f"{name!r} is not a time zone")


def is_time_zone(name: str) -> bool:
    """Return whether `time_zone` knows a name."""
    try:
        time_zone(name)
    except ValueError:
        return False
    return True


@cache
def legacy_zone(name: str) -> datetime.tzinfo:
    """Return a time zone as ``TimeZone.getTimeZone`` does: UTC for unknown names.

    It knows regions, abbreviations such as PST, and offsets from GMT.
    """
    found = _LEGACY_OFFSET.fullmatch(name)
    if found is not None and int(found[2]) < 24:
        offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return datetime.timezone(-offset if found[1] == "-" else offset)
    if name in _ABBREVIATIONS:
        return time_zone(_ABBREVIATIONS[name])
    if _OFFSET.fullmatch(name) is not None:
        return datetime.UTC
    try:
        return time_zone(name)
    except ValueError:
        return datetime.UTC


def zone_id(name: str) -> str:
    """Return the name of a time zone with its offset as ``+08:00``, if it is one."""
    zone = time_zone(name)
    return (zone.tzname(None) or name) if isinstance(zone, datetime.timezone) else name


def is_session_zone(name: str) -> bool:
    """Return whether a name is a session's time zone: a region, or ``GMT+08:00``."""
    if name == "Z" or not is_time_zone(name):
        return False
    return not isinstance(time_zone(name), datetime.timezone) or name.startswith("GMT")
