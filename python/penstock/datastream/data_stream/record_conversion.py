"""Conversion of streams of rows to streams of a class; `DataStream.as_records`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import RecordTypeInfo, RowTypeInfo, Types
from penstock.common.values.record_reading import RecordReader, check_fields
from penstock.datastream.functions import MapFunction
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.datastream.data_stream.stream import DataStream
    from penstock.datastream.functions import RuntimeContext


def records_of(stream: DataStream[Any], record_class: Any) -> DataStream[Any]:
    """Return a stream of instances of a class, converted from a stream of rows.

    Raises:
        InvalidProgramError: The class has no fields, or needs one that the rows lack.
    """
    declared = Types.of(record_class)
    if not isinstance(declared, RecordTypeInfo):
        raise WrongArgumentError(f"as_records takes a class with fields, got {record_class!r}")
    known = stream._plain()._record_type()
    if isinstance(known, RowTypeInfo | RecordTypeInfo):
        check_fields(declared, known.get_field_names(), "as_records")
    return stream._unkeyed().map(ToRecords(declared), declared).name("As records")


class ToRecords(MapFunction):
    """The function that converts rows to instances of a class."""

    def __init__(self, declared: RecordTypeInfo) -> None:
        """Store the type of the class."""
        self._declared = declared

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: ARG002
        """Create the reader of rows."""
        self._read = RecordReader(self._declared)

    def map(self, value: Any) -> Any:
        """Return the instance for one row."""
        return self._read(value)
