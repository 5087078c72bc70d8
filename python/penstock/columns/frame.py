"""The rows of a batch that one branch of a program evaluates, and the values of its registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.columns.batch_schema import fields_of
from penstock.columns.kernels import GivenUpError, element
from penstock.common.composite_types import RowTypeInfo
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.pairs import Pairs
    from penstock.common.typeinfo import TypeInformation


class Record(NamedTuple):
    """A record, whose fields may be read: consecutive columns of the batch.

    Attributes:
        declared: The type of the record; None if it has all columns of the batch.
        start: Its first column.
    """

    declared: TypeInformation | None = None
    start: int = 0


class Tuple(NamedTuple):
    """A tuple of columns and constants."""

    items: list[Any]


class Column(NamedTuple):
    """A value for each row.

    Attributes:
        values: An Arrow array.
        declared: The type of the values.
    """

    values: Any
    declared: TypeInformation


RECORD: Final = Record()


class Frame:
    """Some rows of a batch and the values of their registers."""

    def __init__(
        self, batch: ColumnBatch | Pairs, selection: Any, registers: dict[int, Any]
    ) -> None:
        """Create a frame with the values of its registers.

        Args:
            batch: The batch.
            selection: The positions of the rows, ascending; None for all.
            registers: By number: a `Column`, a tuple, the record, or a constant.
        """
        self.batch = batch
        self.selection = selection
        self.registers = registers
        self._fields: dict[int, Column] = {}

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch if self.selection is None else self.selection)

    def copy(self) -> Frame:
        """Return a frame of the same rows whose registers can be set independently."""
        found = Frame(self.batch, self.selection, dict(self.registers))
        found._fields = self._fields
        return found

    def where(self, mask: Any, last_uses: dict[int, int], place: int) -> Frame:
        """Return the frame of the rows for which a boolean array is true.

        Args:
            mask: The array.
            last_uses: By register: the last instruction that reads it.
            place: The next instruction.
        """
        import pyarrow.compute as pc

        chosen = pc.indices_nonzero(mask)
        if len(chosen) == len(self):
            return self
        selection = chosen if self.selection is None else self.selection.take(chosen)
        registers = {
            at: _taken(value, chosen)
            for at, value in self.registers.items()
            if last_uses.get(at, -1) >= place
        }
        return Frame(self.batch, selection, registers)

    def split(
        self, mask: Any, last_uses: dict[int, int], place: int
    ) -> tuple[Frame | None, Frame | None]:
        """Return the frames of the rows for which a mask is true and false; None for no rows."""
        import pyarrow.compute as pc

        number = pc.sum(mask).as_py() or 0
        if number == len(self):
            return self, None
        if number == 0:
            return None, self
        return (
            self.where(mask, last_uses, place),
            self.where(pc.invert(mask), last_uses, place),
        )

    def width(self, value: Any) -> int:
        """Return the number of fields of a record or tuple."""
        if isinstance(value, Record):
            return len(fields_of(value.declared or self.batch.declared))
        if isinstance(value, Tuple):
            return len(value.items)
        raise GivenUpError

    def field(self, value: Any, position: int) -> Any:
        """Return a field of a record or tuple, or an element of lists."""
        if isinstance(value, Column):
            return as_value(element(value.values, position))
        if position >= self.width(value):
            raise GivenUpError
        if isinstance(value, Tuple):
            return value.items[position]
        position += value.start
        found = self._fields.get(position)
        if found is None:
            column = self.batch.column(position)
            if self.selection is not None:
                column = column.take(self.selection)
            found = Column(column, fields_of(self.batch.declared)[position][1])
            self._fields[position] = found
        return found

    def named_field(self, value: Any, name: str, position: int) -> Any:
        """Return the field of a row by name, or by position for a record without names."""
        declared = (value.declared or self.batch.declared) if isinstance(value, Record) else None
        if isinstance(declared, RowTypeInfo):
            names = declared.get_field_names()
            if name not in names:
                raise GivenUpError
            return self.field(value, names.index(name))
        if position < 0:
            raise GivenUpError
        return self.field(value, position)


def values_of(value: Any) -> Any:
    """Return the array of a column, or a constant."""
    if isinstance(value, Column):
        return value.values
    if isinstance(value, (Record, Tuple)):
        raise GivenUpError
    return value


def as_value(found: Any) -> Any:
    """Return an array as a column of its values' type; a constant as it is."""
    if not hasattr(found, "null_count"):
        return found
    # The results of a split are lists, which no batch contains.
    return Column(found, _DECLARED.get(str(found.type), Types.PICKLED_BYTE_ARRAY()))


#: The types of the arrays that kernels return.
_DECLARED: Final[dict[str, TypeInformation]] = {
    "bool": Types.BOOLEAN(),
    "int64": Types.LONG(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
}


def _taken(value: Any, chosen: Any) -> Any:
    """Return a register's value for some of the rows."""
    if isinstance(value, Column):
        return Column(value.values.take(chosen), value.declared)
    if isinstance(value, Tuple):
        return Tuple([_taken(item, chosen) for item in value.items])
    return value
