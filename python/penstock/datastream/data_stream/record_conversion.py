"""Conversion of streams of rows to streams of a class; `DataStream.as_records`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import RecordTypeInfo, RowTypeInfo, Types
from penstock.common.values.record_reading import RecordReader, check_fields
from penstock.datastream.functions import MapFunction
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.functions import RuntimeContext


def converter_of(stream: StreamSettings, record_class: Any) -> tuple[ToRecords, RecordTypeInfo]:
    """Return the function that converts rows to instances of a class, and the type of these.

    Raises:
        InvalidProgramError: The class has no fields, or needs one that the rows lack.
    """
    declared = Types.of(record_class)
    if not isinstance(declared, RecordTypeInfo):
        raise WrongArgumentError(f"as_records takes a class with fields, got {record_class!r}")
    known = stream._plain()._record_type()
    if isinstance(known, RowTypeInfo | RecordTypeInfo):
        check_fields(declared, known.get_field_names(), "as_records")
    return ToRecords(declared), declared


def check_class_of_records(
    declared: TypeInformation | None, produced: TypeInformation | None
) -> None:
    """Reject the type of a class for a source of rows.

    Raises:
        InvalidProgramError: The source emits rows.
    """
    if isinstance(declared, RecordTypeInfo) and isinstance(produced, RowTypeInfo):
        name = declared.record_class.__name__
        raise InvalidProgramError(
            f"from_source: the source emits rows, {produced}, and no instances of {name}: leave "
            f"out the type, and convert the rows by from_source(…).as_records({name})"
        )


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
