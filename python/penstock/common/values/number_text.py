"""Numbers in Java's text format."""

from __future__ import annotations

import ctypes
import math
import re
from decimal import Decimal
from typing import Final

#: The numbers that Java reads: unlike those of Python, they have no underscores.
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?)", re.ASCII
)


def double_text(value: float) -> str:
    """Return the shortest digits of a number; from 10**7 and below 10**-3 with an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Java writes at least two digits, the closest ones: 4.9E-324 for 5e-324.
    text = f"{value:.1e}"
    number = Decimal(text if float(text) == value else repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{number.adjusted()}"


def float_text(value: float) -> str:
    """Return the shortest digits that distinguish a 32-bit number from its neighbours."""
    nearest = ctypes.c_float(value).value
    if not math.isfinite(nearest):
        return double_text(nearest)
    # At least two digits, as in double_text; nine distinguish any two.
    texts = (f"{nearest:.{digits}e}" for digits in range(1, 9))
    text = next(text for text in texts if ctypes.c_float(float(text)).value == nearest)
    return double_text(float(text))


def parsed_double(text: str) -> float:
    """Parse a number as Java's ``Double.parseDouble`` does; hexadecimal ones are not supported.

    Raises:
        ValueError: The text is not a number.
    """
    text = text.strip()
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text.rstrip("dDfF"))


def parsed_decimal(text: str) -> Decimal:
    """Parse a number as Java's ``BigDecimal`` does.

    Raises:
        ValueError: The text is not a number.
    """
    text = text.strip()
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a decimal number")
    return Decimal(text)
