"""ResultKind: whether a statement's result has rows of its own."""

from __future__ import annotations

__all__ = ["ResultKind"]


class ResultKind:
    """Kinds of results."""

    SUCCESS = 0
    """The statement was carried out; its one row is OK."""
    SUCCESS_WITH_CONTENT = 1
    """The result is rows."""
