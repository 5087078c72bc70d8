"""ResultKind: whether the result of a statement has content."""

from __future__ import annotations

__all__ = ["ResultKind"]


class ResultKind:
    """Kinds of results."""

    SUCCESS = 0
    """The statement was executed; its only row is OK."""
    SUCCESS_WITH_CONTENT = 1
    """The result is rows."""
