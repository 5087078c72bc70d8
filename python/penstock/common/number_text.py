"""Numbers as Java writes them."""

from __future__ import annotations

import math
from decimal import Decimal


def double_text(value: float) -> str:
    """The shortest digits of a number; from 10**7 and below 10**-3 with an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{number.adjusted()}"
