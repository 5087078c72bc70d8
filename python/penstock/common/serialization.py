"""Conversion of records to bytes or text outside a job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.typeinfo import Types
from penstock.common.utils import JavaObjectWrapper as JavaObjectWrapper
from penstock.errors import InvalidProgramError
from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from typing import BinaryIO

    from penstock.common.typeinfo import RowTypeInfo, TypeInformation

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(NoJavaMembers):
    """Converts records to bytes."""

    def __init__(self, j_serialization_schema: None = None) -> None:
        """Create a schema; subclasses implement it.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_serialization_schema is not None:
            requires_jvm("SerializationSchema(j_serialization_schema)", "subclass it in Python")

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a record."""
        raise NotImplementedError(f"{type(self).__name__}.serialize")


class DeserializationSchema(NoJavaMembers, Generic[VALUE]):
    """Converts bytes to records."""

    def __init__(self, j_deserialization_schema: None = None) -> None:
        """Create a schema; subclasses implement it.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_deserialization_schema is not None:
            requires_jvm("DeserializationSchema(j_deserialization_schema)", "subclass it in Python")

    def deserialize(self, message: bytes) -> VALUE | None:
        """Return the record of a message; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.deserialize")


@checks_arguments
class SimpleStringSchema(SerializationSchema, DeserializationSchema[str]):
    """Text in some charset."""

    def __init__(self, charset: str = "UTF-8") -> None:
        """Create a schema.

        Raises:
            InvalidProgramError: Python does not know the charset.
        """
        super().__init__()
        self.charset = known_charset(charset)

    def serialize(self, element: str) -> bytes:
        """Return the text's bytes."""
        return element.encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        """Return the text of the bytes."""
        return message.decode(self.charset)


def produced_type(schema: DeserializationSchema) -> TypeInformation | None:
    """Return the type that a schema declares for its records; None if it declares none."""
    produced = getattr(schema, "get_produced_type", None)
    return None if produced is None else produced()


def message_type(schema: DeserializationSchema) -> TypeInformation | None:
    """Return the type of a broker's messages, which is text for SimpleStringSchema."""
    return Types.STRING() if isinstance(schema, SimpleStringSchema) else produced_type(schema)


class ByteArraySchema(SerializationSchema, DeserializationSchema[bytes]):
    """Unchanged bytes."""

    def __init__(self) -> None:
        """Create a schema."""
        super().__init__()

    def serialize(self, element: bytes) -> bytes:
        """Return the record itself."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the message itself."""
        return bytes(message)


@checks_arguments
class Encoder(NoJavaMembers):
    """Writes records into a file, one after the other."""

    def __init__(self, charset_name: str) -> None:
        """Create an encoder of one line per record.

        Raises:
            InvalidProgramError: Python does not know the charset.
        """
        self.charset_name = known_charset(charset_name)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Write ``str(element)`` and a line feed."""
        return Encoder(charset_name)

    def encode(self, element: Any) -> bytes:
        """Return the bytes appended to the file for a record."""
        return f"{element}\n".encode(self.charset_name)


class BulkWriter(ABC):
    """Writes the records of one file, which is usable once finished (beyond PyFlink)."""

    @abstractmethod
    def add_element(self, element: Any) -> None:
        """Add a record; it may be written later."""

    @abstractmethod
    def flush(self) -> None:
        """Write buffered records."""

    @abstractmethod
    def finish(self) -> None:
        """Write buffered records, and the end of the file; do not close it."""

    def abandon(self) -> None:  # noqa: B027 (optional)
        """Release resources: the file is abandoned."""


class BulkWriterFactory:
    """Creates the writers of a FileSink's files; subclasses implement it.

    Attributes:
        can_be_concatenated: Whether the concatenation of two files is a valid file.
        part_suffix: The suffix of file names, if the program chooses none.
    """

    can_be_concatenated = True
    part_suffix = ""

    def __init__(self, j_bulk_writer_factory: None = None) -> None:
        """Create a factory.

        Raises:
            JvmOnlyError: A Java factory was passed.
        """
        if j_bulk_writer_factory is not None:
            requires_jvm("BulkWriterFactory(j_bulk_writer_factory)", "use ParquetBulkWriters")

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of a file, which is written sequentially."""
        raise NotImplementedError(f"{type(self).__name__}.create")

    def get_java_object(self) -> None:
        """Reject the call: there is no Java object."""
        requires_jvm("BulkWriterFactory.get_java_object", "there is no Java object behind it")


class RowDataBulkWriterFactory(BulkWriterFactory):
    """Creates writers of rows of a declared type."""

    def __init__(self, j_bulk_writer_factory: None, row_type: RowTypeInfo) -> None:
        """Create a factory for rows of that type; see `BulkWriterFactory`."""
        super().__init__(j_bulk_writer_factory)
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._row_type


class RowFieldExtractorSchema(SerializationSchema):
    """Extracts one field of a row, which must be bytes."""

    def __init__(self, field_index: int) -> None:
        """Create a schema for the field at that position.

        Raises:
            InvalidProgramError: The position is negative, or not an integer.
        """
        super().__init__()
        given: Any = field_index
        if not isinstance(given, int) or field_index < 0:
            raise InvalidProgramError(
                f"Field index must be non-negative and an integer, got {field_index!r}"
            )
        self.field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of the field."""
        return bytes(element[self.field_index])


def known_charset(name: str) -> str:
    """Check the name of a charset.

    Raises:
        InvalidProgramError: Python does not know it.
    """
    try:
        "a".encode(name)
    except (LookupError, TypeError, ValueError):
        # Some codecs of Python, such as "hex", do not encode text.
        raise InvalidProgramError(f"unknown charset {name!r}") from None
    return name


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SimpleStringEncoder": "penstock.flink_1",
        **{
            f"{kind}Row{direction}Schema": "penstock.flink_1"
            for kind in ("Avro", "Csv", "Json")
            for direction in ("Serialization", "Deserialization")
        },
    },
)
