"""Row: an ordered, optionally named collection of fields with a change kind."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind

# Only the speed of rows depends on it: either works with both runtimes.
_IS_NATIVE = (
    os.environ.get("PENSTOCK_RUNTIME") != "pure" and find_spec("penstock._core") is not None
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

if TYPE_CHECKING or not _IS_NATIVE:
    from penstock.common.plain_row import RowBase
else:
    from penstock._native.values.row import RowBase

__all__ = [
    "Row",
    "RowKind",
]


class Row(RowBase):
    """Ordered fields, with names if they were given as keywords.

    ``Row("name", "age")`` may also be called with values: it then serves as a factory of rows
    with these names.
    """

    __slots__ = ()

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Create a row of the given kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def __call__(self, *args: Any) -> Row:
        """Create a row of this row's kind whose field names are this row's values.

        Raises:
            ValueError: More values than names.
        """
        names = list(self)
        if len(args) > len(names):
            raise ValueError(f"{len(args)} values for the {len(names)} field names {names}")
        return _restore_row(names, list(args), self.get_row_kind())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields, names and kind."""
        return _restore_row, (self._field_names(), list(self), self.get_row_kind())


if _IS_NATIVE:
    from penstock._native.values.row import set_row_class

    set_row_class(Row)


if TYPE_CHECKING or not _IS_NATIVE:

    def rows_of_columns(names: Sequence[str], columns: Sequence[Iterable[Any]]) -> list[Row]:
        """Return rows with these names, one for each position in the columns.

        Raises:
            ValueError: The columns differ in length.
        """
        shared, kind = list(names), RowKind.INSERT
        return [_restore_row(shared, list(row), kind) for row in zip(*columns, strict=True)]

else:
    from penstock._native.values.row import rows_of_columns  # noqa: F401


def _restore_row(fields: list[str] | None, values: list[Any], kind: RowKind) -> Row:
    row = Row(*values)
    if fields is not None:
        row.set_field_names(list(fields))
    row.set_row_kind(kind)
    return row


def values_in_order(row: Row, names: list[str]) -> list[Any]:
    """Return the values of a row in the order of a type's or a sink's field names.

    If the fields have no names, or the names f0, f1, … of a type without names, positions count.
    If the program named the fields, these names count; the row may have others.

    Raises:
        ValueError: A name is not one of the row's; the text has the names of both.
    """
    own = row._field_names()
    if own is None or own == names:
        return list(row)
    if len(own) == len(row):
        if set(names) <= set(own):
            return row.get_fields_by_names(names)
        if own == _unchosen_names(len(own)):
            return list(row)
    raise ValueError(f"its fields are {own}, not {names}")


@cache
def _unchosen_names(count: int) -> list[str]:
    """Return the default field names of a type."""
    return [f"f{i}" for i in range(count)]
