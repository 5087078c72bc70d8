"""Pairs of records of two streams, as columns that are made when a program reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.columns.batch_schema import fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.frame import Record
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation


class Pairs:
    """Pairs with the timestamps of their results; a program reads the fields of both records.

    Attributes:
        left: The record of the left side, as the first argument of a program.
        right: The record of the right side.
        declared: The type of a tuple of all fields.
        timestamps: In ms, as those of a ColumnBatch.
    """

    def __init__(
        self,
        sides: tuple[TypeInformation, TypeInformation],
        columns: Callable[[int, int], Any],
        timestamps: Any,
        count: int,
    ) -> None:
        """Create pairs.

        Args:
            sides: By side, the type of its records.
            columns: Returns the column of a side, 0 or 1, and a position.
            timestamps: An int64 array of Arrow, or one integer.
            count: The number of pairs.
        """
        self._sides = sides
        fields = [fields_of(side) for side in sides]
        self.left = Record(sides[0], 0)
        self.right = Record(sides[1], len(fields[0]))
        self.declared = Types.TUPLE([kind for side in fields for _, kind in side])
        self.timestamps = timestamps
        self._columns = columns
        self._count = count

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self._count

    def column(self, position: int) -> Any:
        """Return a column; those of the right side follow those of the left one."""
        start = self.right.start
        return (
            self._columns(0, position) if position < start else self._columns(1, position - start)
        )

    def take(self, indices: Any) -> Pairs:
        """Return the pairs at some positions."""
        stamps = self.timestamps
        return Pairs(
            self._sides,
            lambda side, position: self._columns(side, position).take(indices),
            stamps if isinstance(stamps, int) else stamps.take(indices),
            len(indices),
        )

    def with_columns(self, data: Any, declared: TypeInformation) -> ColumnBatch:
        """Return results of the pairs with their timestamps."""
        return ColumnBatch(data, declared, self.timestamps)
