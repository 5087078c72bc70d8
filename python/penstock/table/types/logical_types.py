"""The data types of SQL and the Table API.

``str()`` of a type is Flink's spelling (``DECIMAL(10, 2) NOT NULL``), ``repr()`` is PyFlink's
(``DecimalType(10, 2, false)``).  Types are values: two types are equal if they describe the same
values, even if only one of them is a time attribute.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.table.exceptions import InvalidTypeError
from penstock.table.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.common.basic_types import TypeInformation

MAX_LENGTH: Final = 0x7FFFFFFF
"""The length of STRING and BYTES."""


class TimeAttribute(Enum):
    """The role of a timestamp column in event-time and processing-time operations."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


class DataType:
    """The type of a column or of a part of its values.

    Args:
        nullable: Whether values may be NULL.
    """

    _NAME = ""

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable

    def __type_information__(self) -> TypeInformation:
        """Return the type of a stream of such values, where ``Types`` are expected."""
        from penstock.table.types.stream_types import type_info_of

        return type_info_of(self)

    @property
    def is_nullable(self) -> bool:
        """Return whether NULL is one of the values."""
        return self._nullable

    def not_null(self) -> Self:
        """Return this type without NULL."""
        return self.with_nullability(False)

    def nullable(self) -> Self:
        """Return this type with NULL."""
        return self.with_nullability(True)

    def with_nullability(self, nullable: bool) -> Self:
        """Return this type with or without NULL."""
        if nullable == self._nullable:
            return self
        other = self._copy()
        other._nullable = nullable
        return other

    def summary(self) -> str:
        """Return the SQL spelling without NOT NULL."""
        return self._NAME

    @classmethod
    def type_name(cls) -> str:
        """Return the name of the type's class, such as BIGINT."""
        return cls.__name__.removesuffix("Type").upper()

    def _copy(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _identity(self) -> tuple[Any, ...]:
        """Return the values that distinguish types of one class."""
        return (self._nullable,)

    def _arguments(self) -> tuple[Any, ...]:
        """Return the part of ``repr`` before the nullability."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __str__(self) -> str:
        return self.summary() if self._nullable else f"{self.summary()} NOT NULL"

    def __repr__(self) -> str:
        shown = ", ".join([*map(repr, self._arguments()), str(self._nullable).lower()])
        return f"{type(self).__name__}({shown})"


class AtomicType(DataType):
    """A type whose values have no parts."""


class NullType(AtomicType):
    """The type of NULL alone."""

    _NAME = "NULL"


class NumericType(AtomicType):
    """A type of numbers."""


class IntegralType(NumericType):
    """A type of integers."""


class FractionalType(NumericType):
    """A type of numbers with a fraction."""


class BooleanType(AtomicType):
    """BOOLEAN: true and false."""

    _NAME = "BOOLEAN"


class TinyIntType(IntegralType):
    """TINYINT: signed integers of 1 byte."""

    _NAME = "TINYINT"


class SmallIntType(IntegralType):
    """SMALLINT: signed integers of 2 bytes."""

    _NAME = "SMALLINT"


class IntType(IntegralType):
    """INT: signed integers of 4 bytes."""

    _NAME = "INT"


class BigIntType(IntegralType):
    """BIGINT: signed integers of 8 bytes."""

    _NAME = "BIGINT"


class FloatType(FractionalType):
    """FLOAT: IEEE 754 numbers of 4 bytes."""

    _NAME = "FLOAT"


class DoubleType(FractionalType):
    """DOUBLE: IEEE 754 numbers of 8 bytes."""

    _NAME = "DOUBLE"


class DecimalType(FractionalType):
    """DECIMAL(precision, scale): exact numbers.

    Args:
        precision: The number of digits, 1 to 38.
        scale: The number of digits after the point, 0 to ``precision``.
        nullable: Whether values may be NULL.

    Raises:
        InvalidTypeError: The precision or the scale is out of range.
    """

    _NAME = "DECIMAL"

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        check_range("Decimal precision", precision, 1, 38)
        check_range("Decimal scale", scale, 0, precision)
        self.precision = precision
        self.scale = scale
        self.has_precision_info = True

    def summary(self) -> str:
        """Return DECIMAL with precision and scale."""
        return f"DECIMAL({self.precision}, {self.scale})"

    def _identity(self) -> tuple[Any, ...]:
        return self.precision, self.scale, self._nullable

    def _arguments(self) -> tuple[Any, ...]:
        return self.precision, self.scale


class _LengthType(AtomicType):
    """A type of texts or of bytes with a length.

    Args:
        length: The exact or the largest length, at least 1; in characters or bytes.
        nullable: Whether values may be NULL.

    Raises:
        InvalidTypeError: The length is less than 1.
    """

    _UNBOUNDED_NAME = ""

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(nullable)
        check_range("The length", length, 1, MAX_LENGTH)
        self.length = length

    def summary(self) -> str:
        """Return the name with the length; STRING or BYTES for the maximum."""
        if self.length == MAX_LENGTH and self._UNBOUNDED_NAME:
            return self._UNBOUNDED_NAME
        return f"{self._NAME}({self.length})"

    def _identity(self) -> tuple[Any, ...]:
        return self.length, self._nullable

    def _arguments(self) -> tuple[Any, ...]:
        return (self.length,)


class CharType(_LengthType):
    """CHAR(n): texts of n characters."""

    _NAME = "CHAR"


class VarCharType(_LengthType):
    """VARCHAR(n): texts of at most n characters; STRING is the longest."""

    _NAME = "VARCHAR"
    _UNBOUNDED_NAME = "STRING"


class BinaryType(_LengthType):
    """BINARY(n): n bytes."""

    _NAME = "BINARY"


class VarBinaryType(_LengthType):
    """VARBINARY(n): at most n bytes; BYTES is the longest."""

    _NAME = "VARBINARY"
    _UNBOUNDED_NAME = "BYTES"


class DateType(AtomicType):
    """DATE: year, month and day."""

    _NAME = "DATE"


class _PrecisionType(AtomicType):
    """A type of times with a precision.

    Args:
        precision: The number of digits of fractional seconds, 0 to 9.
        nullable: Whether values may be NULL.

    Raises:
        InvalidTypeError: The precision is out of range.
    """

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        check_range("The precision", precision, 0, 9)
        self.precision = precision

    def summary(self) -> str:
        """Return the name with the precision."""
        return f"{self._NAME}({self.precision})"

    def _identity(self) -> tuple[Any, ...]:
        return self.precision, self._nullable

    def _arguments(self) -> tuple[Any, ...]:
        return (self.precision,)


class TimeType(_PrecisionType):
    """TIME(p): a time of day without time zone."""

    _NAME = "TIME"


class _TimestampType(_PrecisionType):
    """A type of points in time, whose columns may be time attributes."""

    def __init__(
        self,
        precision: int = 6,
        nullable: bool = True,
        time_attribute: TimeAttribute | None = None,
    ) -> None:
        super().__init__(precision, nullable)
        self.time_attribute = time_attribute
        self._shown_attribute = time_attribute

    @property
    def is_rowtime(self) -> bool:
        """Return whether this is the type of an event-time attribute."""
        return self.time_attribute is TimeAttribute.ROWTIME

    @property
    def is_proctime(self) -> bool:
        """Return whether this is the type of a processing-time attribute."""
        return self.time_attribute is TimeAttribute.PROCTIME

    @property
    def shows_rowtime(self) -> bool:
        """Return whether DESCRIBE shows that the column is or was the event time of its rows."""
        return self._shown_attribute is TimeAttribute.ROWTIME

    def with_time_attribute(self, time_attribute: TimeAttribute | None) -> Self:
        """Return this type with a time attribute, or for None without one."""
        if time_attribute is self.time_attribute and time_attribute is self._shown_attribute:
            return self
        other = self._copy()
        other.time_attribute = other._shown_attribute = time_attribute
        return other

    def materialized(self) -> Self:
        """Return this type without a time attribute, which DESCRIBE still shows.

        Flink shows the attribute of a column behind a join, a group or a window, where the column
        is an ordinary timestamp.
        """
        if self.time_attribute is None:
            return self
        other = self._copy()
        other.time_attribute = None
        return other

    def describe(self) -> str:
        """Return the spelling with the time attribute that the column has or had, for DESCRIBE."""
        mark = "" if self._shown_attribute is None else f" *{self._shown_attribute.value}*"
        return f"{self}{mark}"


class TimestampType(_TimestampType):
    """TIMESTAMP(p): date and time without time zone."""

    _NAME = "TIMESTAMP"


class LocalZonedTimestampType(_TimestampType):
    """TIMESTAMP_LTZ(p): an instant, shown in the session's time zone."""

    _NAME = "TIMESTAMP_LTZ"


class ZonedTimestampType(_PrecisionType):
    """TIMESTAMP(p) WITH TIME ZONE, which Flink's SQL and penstock do not support."""

    def summary(self) -> str:
        """Return the SQL spelling."""
        return f"TIMESTAMP({self.precision}) WITH TIME ZONE"


class ArrayType(DataType):
    """ARRAY<t>: lists of values of one type."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = element_type

    def summary(self) -> str:
        """Return ARRAY with the type of its elements."""
        return f"ARRAY<{self.element_type}>"

    def _identity(self) -> tuple[Any, ...]:
        return self.element_type, self._nullable

    def _arguments(self) -> tuple[Any, ...]:
        return (self.element_type,)


class MultisetType(ArrayType):
    """MULTISET<t>: values with the number of their occurrences."""

    def summary(self) -> str:
        """Return MULTISET with the type of its elements."""
        return f"MULTISET<{self.element_type}>"


class MapType(DataType):
    """MAP<k, v>: values by key."""

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = key_type
        self.value_type = value_type

    def summary(self) -> str:
        """Return MAP with the types of its keys and values."""
        return f"MAP<{self.key_type}, {self.value_type}>"

    def _identity(self) -> tuple[Any, ...]:
        return self.key_type, self.value_type, self._nullable

    def _arguments(self) -> tuple[Any, ...]:
        return self.key_type, self.value_type


class ListViewType(DataType):
    """A list in an accumulator, stored in state by elements."""

    def __init__(self, element_type: DataType) -> None:
        super().__init__()
        self._element_type = element_type

    def summary(self) -> str:
        """Return LIST_VIEW with the type of its elements."""
        return f"LIST_VIEW<{self._element_type}>"

    def _identity(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def __repr__(self) -> str:
        return f"ListViewType({self._element_type!r})"


class MapViewType(DataType):
    """A map in an accumulator, stored in state by entries."""

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        super().__init__()
        self._key_type = key_type
        self._value_type = value_type

    def summary(self) -> str:
        """Return MAP_VIEW with the types of its keys and values."""
        return f"MAP_VIEW<{self._key_type}, {self._value_type}>"

    def _identity(self) -> tuple[Any, ...]:
        return self._key_type, self._value_type

    def __repr__(self) -> str:
        return f"MapViewType({self._key_type!r}, {self._value_type!r})"


class RowField:
    """A named field of a row.

    Args:
        name: The name.
        data_type: The type of the values.
        description: A description.
    """

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        self.name = name
        self.data_type = data_type
        self.description = "..." if description is None else description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.name, self.data_type))

    def __str__(self) -> str:
        text = f"{quoted(self.name)} {self.data_type}"
        return text if self.description == "..." else f"{text} '{self.description}'"

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r}, {self.description})"


class RowType(DataType):
    """ROW<...>: named fields in order; also the type of a whole table's rows."""

    def __init__(self, fields: Sequence[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields = list(fields or ())
        for field in self.fields:
            if not isinstance(field, RowField):
                raise InvalidTypeError(
                    f"A field of a ROW must be a DataTypes.FIELD, got {type(field).__name__}"
                )

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return self.field_names()

    def add(
        self, field: RowField | str, data_type: DataType | None = None, nullable: bool = True
    ) -> RowType:
        """Append a field and return this type.

        Args:
            field: The field, or its name.
            data_type: The field's type if ``field`` is a name.
            nullable: Whether the field's values may be NULL if ``field`` is a name.

        Raises:
            InvalidTypeError: ``field`` is a name without a type.
        """
        if isinstance(field, str):
            if data_type is None:
                raise InvalidTypeError(f"The field {field!r} needs a data type")
            field = RowField(field, data_type.with_nullability(nullable))
        self.fields.append(field)
        return self

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return [field.name for field in self.fields]

    def field_types(self) -> list[DataType]:
        """Return the types of the fields."""
        return [field.data_type for field in self.fields]

    def summary(self) -> str:
        """Return ROW with its fields."""
        return f"ROW<{', '.join(map(str, self.fields))}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*((f.name, f.data_type) for f in self.fields), self._nullable)

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: str | int) -> RowField:
        """Return the field with a name or position.

        Raises:
            KeyError: No field has the name.
        """
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(f"No RowField named {key}")

    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self.fields))})"


class RawType(DataType):
    """The type of Python objects that SQL passes through unchanged."""

    # As in Flink, for which a Python object is an array of bytes.
    _NAME = "RAW('[B', '...')"


def check_range(what: str, value: int, least: int, most: int) -> None:
    """Check a length, a precision or a scale.

    Raises:
        InvalidTypeError: It is out of range.
    """
    if not least <= value <= most:
        raise InvalidTypeError(f"{what} must be between {least} and {most}, got {value}")
