"""Names that a program gives to operators, states, accumulators and jobs."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_BYTES: Final = 65_535
"""In UTF-8; Flink has the same limit."""


def checked_name(what: str, name: object) -> str:
    """Return a name that can be stored and sent.

    Args:
        what: The named thing, for the message.
        name: The program's argument.

    Raises:
        InvalidProgramError: The name is not a string, has a character that no encoding has, or is
            too long.
    """
    if not isinstance(name, str):
        raise InvalidProgramError(f"the name of {what} must be a string, got {str(name)[:80]!r}")
    size = checked_size(f"the name of {what}", name)
    if size > MAX_NAME_BYTES:
        raise InvalidProgramError(
            f"the name of {what}, {name[:40]!r}…, has {size} bytes; the limit is {MAX_NAME_BYTES}"
        )
    return name


def checked_size(what: str, text: str) -> int:
    """Return the size of a text in UTF-8, in bytes.

    Args:
        what: The thing that has the text, for the message.
        text: The program's argument.

    Raises:
        InvalidProgramError: The text has a character that no encoding has.
    """
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidProgramError(
            f"{what}, {text[:80]!a}, cannot be written in UTF-8: {error.reason} at position "
            f"{error.start}; if it is the name of a file, os.fsencode() returns its bytes"
        ) from error


def nearest_hint(name: object, names: Iterable[str]) -> str:
    """Return "; did you mean 'user'?" if one of some names resembles a wrong one, else ""."""
    near = difflib.get_close_matches(str(name), list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
