"""Helpers shared by the connectors of tables."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidProgramError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Escape sequences of colours in libraries' messages.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def check_columns(columns: Sequence[str] | None, used_by: str) -> None:
    """Check that requested columns are not empty and have no duplicates.

    Raises:
        InvalidProgramError: The columns are invalid.
    """
    if columns is not None and (not columns or len(set(columns)) < len(columns)):
        raise InvalidProgramError(
            f"{used_by}: columns must be names, at least one and each once, or None for all, got "
            f"{list(columns)}"
        )


@contextmanager
def opening(table: str, failure: type[PenstockError], advice: str) -> Iterator[None]:
    """Convert any error of opening a table to one that names the table.

    Args:
        table: The table and its user, for the message.
        failure: The class of the error.
        advice: The settings to check.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        reason = " ".join(_COLOUR.sub("", str(error)).split())
        raise failure(
            f"cannot open {table}: {type(error).__name__}: {reason}; check {advice}"
        ) from error
