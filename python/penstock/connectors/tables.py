"""Helpers that the connectors of tables share."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidProgramError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Libraries colour what they say.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def check_columns(columns: Sequence[str] | None, used_by: str) -> None:
    """Looks whether columns that are asked for are some, each once.

    Raises:
        InvalidProgramError: They are not.
    """
    if columns is not None and (not columns or len(set(columns)) < len(columns)):
        raise InvalidProgramError(
            f"{used_by}: columns are names, at least one and each once (None is all), got "
            f"{list(columns)}"
        )


@contextmanager
def opening(table: str, failure: type[PenstockError], advice: str) -> Iterator[None]:
    """Says which table could not be opened, whatever the library, or one behind it, raises.

    Args:
        table: Who opens which table.
        failure: The class of the error.
        advice: What to look at.
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
