"""Handling of malformed bytes: an error, a skip, or a dead letter (beyond PyFlink).

A dead letter is a row in a side output: where the bytes came from, what is wrong, and the bytes.
"""

from penstock.formats.dead_letters import (
    DEAD_LETTER_TYPE,
    DeserializeFunction,
    dead_letter,
    dead_letter_tag,
)

__all__ = ["DEAD_LETTER_TYPE", "DeserializeFunction", "dead_letter", "dead_letter_tag"]
