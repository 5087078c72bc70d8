"""The columns of the batches that functions of users receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import batch_schema, fields_of
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.typeinfo import Types
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.arrow_types import arrow_library, columns_of
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.aggregates.named import KeyFields
    from penstock.common.typeinfo import TypeInformation

_BOUNDS: Final = ("window_start", "window_end")


@dataclass(frozen=True)
class BatchFields:
    """The columns of a batch: the fields of the records, then those of the key and of the window.

    Attributes:
        declared: The type of the records.
        key: The fields of the key; None if there is no key, or its type is unknown.
        added: The positions of the fields of the key that records do not have.
        has_bounds: Whether the start and the end of the window in ms are columns.
    """

    declared: TypeInformation
    key: KeyFields | None = None
    added: tuple[int, ...] = ()
    has_bounds: bool = False

    @property
    def added_type(self) -> RowTypeInfo:
        """The type of the columns behind those of the records."""
        names, types = [], []
        if self.key is not None:
            names = [self.key.names[at] for at in self.added]
            types = [self.key.types[at] for at in self.added]
        if self.has_bounds:
            names += _BOUNDS
            types += [Types.LONG()] * len(_BOUNDS)
        return Types.ROW_NAMED(names, types)

    @property
    def row_type(self) -> RowTypeInfo:
        """The type of all columns."""
        fields, more = fields_of(self.declared), fields_of(self.added_type)
        return Types.ROW_NAMED(*map(list, zip(*fields, *more, strict=True)))

    def check(self, where: str) -> None:
        """Check that all columns exist and have different names.

        Args:
            where: The call, for messages.

        Raises:
            InvalidProgramError: Arrow has no type for a field, two fields have one name, or records
                have none.
        """
        if not fields_of(self.declared):
            raise InvalidProgramError(f"{where}: the records have no fields, so no columns")
        batch_schema(self.row_type)

    def values_of_key(self, key: Any) -> tuple[Any, ...]:
        """Return the values of the added fields for a key."""
        if self.key is None:
            return ()
        values = self.key.values(key)
        return tuple([values[at] for at in self.added])

    def data(self, records: Iterable[Any]) -> Any:
        """Return the columns of records, without those of the key and the window.

        Raises:
            FormatError: A record does not fit the type.
        """
        names = [name for name, _ in fields_of(self.declared)]
        has_fields = isinstance(self.declared, (RowTypeInfo, TupleTypeInfo))
        try:
            rows = [field_values(v, names) if has_fields else (v,) for v in records]
        except Misfit as misfit:
            raise FormatError(str(misfit)) from None
        types = [kind for _, kind in fields_of(self.declared)]
        return _columns(rows, Types.ROW_NAMED(names, types))

    def with_added(self, data: Any, values: Sequence[Sequence[Any]]) -> Any:
        """Return columns of records with the further columns.

        Args:
            data: A RecordBatch of the records.
            values: The values of the further columns for each record.

        Raises:
            FormatError: A value does not fit the type of its column.
        """
        return self.joined(data, _columns(values, self.added_type).columns)

    def joined(self, data: Any, added: Sequence[Any]) -> Any:
        """Return columns of records with further Arrow arrays."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [*data.columns, *added], schema=batch_schema(self.row_type)
        )


def _columns(rows: Sequence[Sequence[Any]], row_type: RowTypeInfo) -> Any:
    schema = batch_schema(row_type)
    if rows:
        return columns_of(rows, row_type, schema)
    return arrow_library("a batch of columns").RecordBatch.from_pylist([], schema)
