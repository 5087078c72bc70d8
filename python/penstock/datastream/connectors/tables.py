"""What the connectors of tables have in common."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Libraries colour what they say.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


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
