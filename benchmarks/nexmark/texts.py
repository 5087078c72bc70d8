"""Functions of single values that the Python programs share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Final

_CHANNEL_ID: Final = re.compile(r"[?&]channel_id=([^&]*)")
_KNOWN_CHANNELS: Final = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


@cache
def _day(number: int) -> str:
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")


@cache
def _minute(number: int) -> str:
    return f"{number // 60:02}:{number % 60:02}"


def day_of(time_ms: int) -> str:
    """Return the day of a time in UTC, as `2015-07-15`."""
    return _day(time_ms // 86_400_000)


def minute_of(time_ms: int) -> str:
    """Return the minute of a time in UTC, as `23:59`."""
    return _minute(time_ms // 60_000 % 1440)


def time_of_day(time_ms: int) -> str:
    """Return whether a time in UTC is by day, by night or at another time."""
    hour = time_ms // 3_600_000 % 24
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def channel_id(channel: str, url: str) -> str | None:
    """Return the id of a well-known channel, or the one in the URL; None if there is none."""
    known = _KNOWN_CHANNELS.get(channel.lower())
    if known is not None:
        return known
    found = _CHANNEL_ID.search(url)
    return None if found is None else found[1] or None


def side_input() -> dict[int, str]:
    """Return the table that bids are joined with by their auction modulo 10,000."""
    return {number: f"side-{number}" for number in range(10_000)}
