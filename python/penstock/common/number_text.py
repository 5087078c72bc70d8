"""Numbers in Java's text format."""

from __future__ import annotations

import ctypes
import math
from decimal import Decimal


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
