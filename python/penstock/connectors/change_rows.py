"""Changes of rows for a sink that stores the last row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.names import nearest_hint
from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.common.values.change_rows import kind_of_change
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DELETIONS = (RowKind.DELETE, RowKind.UPDATE_BEFORE)


class ChangeKey:
    """Key selector that reads the key columns of changed rows.

    Args:
        user: The sink or method, for messages.
        key: The names of the key columns.
        names: The names of all columns; None if unknown.

    Raises:
        InvalidProgramError: The key is empty, or has a duplicate or unknown column.
    """

    def __init__(self, user: str, key: Sequence[str], names: Sequence[str] | None = None) -> None:
        given: Any = key
        if isinstance(given, str) or not given or not all(isinstance(one, str) for one in given):
            raise InvalidProgramError(f"{user} takes the names of key columns, got {key!r}")
        self.names = list(key)
        if len(set(self.names)) < len(self.names):
            raise InvalidProgramError(f"{user}: the key has a column twice: {self.names}")
        for name in self.names:
            if names is not None and name not in names:
                raise InvalidProgramError(
                    f"{user}: there is no key column {name!r}{nearest_hint(name, names)}"
                )
        self._user = user
        self._columns = None if names is None else list(names)
        self._positions = None if names is None else [names.index(name) for name in self.names]

    def __call__(self, element: Any) -> tuple[Any, ...]:
        """Return the key of a row as a tuple.

        Raises:
            FormatError: The record lacks a key column, or its value is None.
        """
        try:
            values = self._values(element)
        except Misfit as misfit:
            raise FormatError(f"{self._user}: {misfit}") from None
        if None in values:
            name = self.names[values.index(None)]
            raise FormatError(f"{self._user}: the key column {name!r} is None in {element!r:.200}")
        return values

    def _values(self, element: Any) -> tuple[Any, ...]:
        columns, positions = self._columns, self._positions
        if columns is None or positions is None:
            # Without a declared type, the row itself has the names.
            columns = list(element._field_names() or ()) if isinstance(element, Row) else self.names
            missing = [name for name in self.names if name not in columns]
            if missing:
                raise Misfit(f"{element!r:.200} has no field {missing[0]!r}")
            positions = [columns.index(name) for name in self.names]
        values = field_values(element, columns)
        return tuple(values[i] for i in positions)


def is_deletion(element: Any) -> bool:
    """Return whether a row deletes its key: ``-D``, and ``-U`` unless ``+U`` follows."""
    return kind_of_change(element) in _DELETIONS


def is_old_row(element: Any) -> bool:
    """Return whether a row is the old one of an update, ``-U``."""
    return kind_of_change(element) is RowKind.UPDATE_BEFORE


class OldRows:
    """Holds ``-U`` rows back until the next row, so that no batch ends between the two."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def joined(self, element: Any) -> list[Any]:
        """Return the rows to write now: none for ``-U``, otherwise those held back and the row."""
        if is_old_row(element):
            self._held.append(element)
            return []
        return [*self.taken(), element]

    def changed(self, element: Any, key_of: Callable[[Any], Any]) -> list[Any]:
        """Return the rows to write now, without the old rows that the row replaces."""
        rows = self.joined(element)
        if len(rows) < 2:
            return rows
        key = key_of(element)
        return [*(row for row in rows[:-1] if key_of(row) != key), element]

    def taken(self) -> list[Any]:
        """Return the rows held back, and forget them."""
        held, self._held = self._held, []
        return held
