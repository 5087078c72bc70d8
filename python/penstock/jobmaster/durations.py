"""Durations as configuration writes them: "10 s", "500ms", "PT1M30S"."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ConfigurationError

_UNITS_MS: Final[dict[str, float]] = {
    "": 1,
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_SIMPLE: Final = re.compile(r"(\d+)\s*([a-zµ]*)")
_ISO: Final = re.compile(
    r"p(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?)?", re.IGNORECASE
)
_ISO_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def parse_duration_ms(text: str, key: str) -> int:
    """Returns a duration in ms; a number without a unit is in ms.

    Args:
        text: The duration.
        key: Configuration key, for the error.

    Raises:
        ConfigurationError: If it is not a duration.
    """
    stripped = text.strip().lower()
    simple = _SIMPLE.fullmatch(stripped)
    if simple is not None and simple[2] in _UNITS_MS:
        return int(int(simple[1]) * _UNITS_MS[simple[2]])
    iso = _ISO.fullmatch(stripped)
    if iso is not None and any(iso.groups()):
        parts = zip(iso.groups(), _ISO_UNITS_MS, strict=True)
        return int(sum(float(part) * unit for part, unit in parts if part is not None))
    raise ConfigurationError(f"{key} is not a duration: {text!r}; write for example '10 s'")
