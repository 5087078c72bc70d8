"""Mismatch of a value and a format: the field, and the reason."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", bound=Exception)


class Misfit(Exception):
    """A value that is not of its declared type; schemas convert it to a `FormatError`."""

    def __init__(self, reason: str, *path: str) -> None:
        """Create an error with its reason and the path of the field within the value."""
        super().__init__(reason)
        self.path = list(path)

    def within(self, name: str) -> Self:
        """Return the error with the path extended by the field that contains the value."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        reason = str(self.args[0])
        return f"the field {'.'.join(self.path)!r}: {reason}" if self.path else reason


@contextmanager
def meant_for(place: str) -> Iterator[None]:
    """Add to errors the place where records were to be written."""
    try:
        yield
    except Exception as error:
        note_place(error, place)
        raise


def note_place(error: E, place: str) -> E:
    """Add to an error the place where a record was to be written, and return the error."""
    error.add_note(f"It was to be written to {place}.")
    return error


def shown_bytes(message: bytes) -> str:
    """Return the beginning of a message, for an error."""
    text = bytes(message[:200]).decode(errors="backslashreplace")
    return f"{text!r}…" if len(message) > 200 else repr(text)
