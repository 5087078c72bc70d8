"""ChangelogMode: the row kinds of a table or sink."""

from __future__ import annotations

from penstock.common.row_kind import RowKind

__all__ = ["ChangelogMode"]


class ChangelogMode:
    """The row kinds of a changelog.

    Args:
        kinds: The row kinds.
    """

    def __init__(self, kinds: frozenset[RowKind]) -> None:
        self._kinds = kinds

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode of tables whose rows never change."""
        return ChangelogMode(frozenset({RowKind.INSERT}))

    @staticmethod
    def upsert() -> ChangelogMode:
        """Return the mode in which the new row of a key replaces the old one."""
        kinds = {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}
        return ChangelogMode(frozenset(kinds))

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode in which an update consists of the old row and the new one."""
        return ChangelogMode(frozenset(RowKind))

    @property
    def kinds(self) -> frozenset[RowKind]:
        """The row kinds."""
        return self._kinds

    def contains(self, kind: RowKind) -> bool:
        """Return whether the mode has a row kind."""
        return kind in self._kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangelogMode) and self._kinds == other._kinds

    def __hash__(self) -> int:
        return hash(self._kinds)

    def __str__(self) -> str:
        return f"[{', '.join(kind.name for kind in RowKind if kind in self._kinds)}]"

    def __repr__(self) -> str:
        return f"<ChangelogMode {self}>"
