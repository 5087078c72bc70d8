"""Adds the name of the state to errors about its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import SerializationError


def name_state(error: SerializationError, name: str) -> None:
    """Add the name of the state to an error, unless an inner call has added it."""
    note = f"in the state {name!r}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
