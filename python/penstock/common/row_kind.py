"""Change that a row makes to a table."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

from penstock.common.calls.jvm import requires_jvm


class RowKind(Enum):
    """Change that a row makes to a table."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        """Return the short form: +I, -U, +U or -D."""
        return _SHORT_FORMS[self.value]

    def to_j_row_kind(self) -> NoReturn:
        """Reject the call: there is no Java enum to convert to."""
        requires_jvm("RowKind.to_j_row_kind", "use the RowKind itself")


_SHORT_FORMS = ("+I", "-U", "+U", "-D")
