"""Numbers and names that several modules share."""

from typing import Final

MAX_LONG_VALUE: Final = 0x7FFFFFFFFFFFFFFF
MIN_LONG_VALUE: Final = -MAX_LONG_VALUE - 1
"""Also the timestamp that stands for none."""

DEFAULT_OUTPUT_TAG: Final = ""
"""The tag of an operator's main output."""
