"""Type descriptions: what the codecs of the data plane are chosen by.

``str()`` of a description, its equality and the names of fields are those of PyFlink.  A
description holds no codec itself: `penstock.network.codec` makes one from it.
"""

from __future__ import annotations

import calendar
import datetime
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common.jvm import requires_jvm
from penstock.common.time import Instant
from penstock.common.types import Row
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "TypeInformation",
    "Types",
]


class TypeInformation:
    """Describes the values of a stream, a key or a state."""

    def __init__(self) -> None:
        """Makes a description."""

    def get_java_type_info(self) -> NoReturn:
        """Refused: there is no Java type behind a description."""
        requires_jvm(f"{type(self).__name__}.get_java_type_info", "use the description itself")

    def need_conversion(self) -> bool:
        """Whether `to_internal_type` changes a value."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """A value in the form that a serializer writes."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """The inverse of `to_internal_type`."""
        return obj

    def __hash__(self) -> int:
        """A hash that agrees with the structural equality of every subclass."""
        return hash(type(self).__name__)


class BasicType(Enum):
    """The scalar types, with the names that `str` gives."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation):
    """A scalar."""

    def __init__(self, basic_type: BasicType) -> None:
        """Makes a description of a scalar type."""
        super().__init__()
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        """Which scalar type it is."""
        return self._basic_type

    def __eq__(self, o: object) -> bool:
        """Whether it is the same scalar type."""
        return isinstance(o, BasicTypeInfo) and self._basic_type is o._basic_type

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name of the scalar type."""
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        """Text of any length."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """True or False."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """An integer of 8 bits with sign."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """An integer of 16 bits with sign."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """An integer of 32 bits with sign."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """An integer of 64 bits with sign."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """A number of single precision."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """A number of double precision."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """One character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """An integer of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """A decimal number of any precision."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """A point in time."""
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """A point in time with nanoseconds."""

    def __init__(self, basic_type: BasicType) -> None:
        """Makes the description."""
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        """True: a serializer writes epoch microseconds."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Epoch microseconds of an Instant."""
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        """An Instant of epoch microseconds."""
        if obj is None:
            return None
        seconds, micros = divmod(obj, 1_000_000)
        return Instant(seconds, micros * 1000)


class SqlTimeTypeInfo(TypeInformation):
    """The date and time types of SQL."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        """`datetime.date`."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        """`datetime.time`."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        """`datetime.datetime`."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """`datetime.date`; internally the days since 1970-01-01."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def __init__(self) -> None:
        """Makes the description."""
        super().__init__()

    def __eq__(self, o: object) -> bool:
        """Whether it describes dates too."""
        return isinstance(o, DateTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The fixed name."""
        return "DateTypeInfo"

    def need_conversion(self) -> bool:
        """True."""
        return True

    def to_internal_type(self, d: Any) -> Any:
        """Days since the epoch."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: Any) -> Any:
        """The date of so many days since the epoch."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation):
    """`datetime.time`; internally the microseconds since midnight."""

    EPOCH_ORDINAL = 0

    def __eq__(self, o: object) -> bool:
        """Whether it describes times too."""
        return isinstance(o, TimeTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The fixed name."""
        return "TimeTypeInfo"

    def need_conversion(self) -> bool:
        """True."""
        return True

    def to_internal_type(self, t: Any) -> Any:
        """Microseconds since midnight, in UTC when the time has a zone."""
        if t is None:
            return None
        seconds = (t.hour * 60 + t.minute) * 60 + t.second
        offset = t.utcoffset() or datetime.timedelta()
        return seconds * 1_000_000 + t.microsecond - offset // datetime.timedelta(microseconds=1)

    def from_internal_type(self, t: Any) -> Any:
        """The time of so many microseconds since midnight."""
        if t is None:
            return None
        seconds, micros = divmod(t, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour, minute, second, micros)


class TimestampTypeInfo(TypeInformation):
    """`datetime.datetime`; internally epoch microseconds."""

    def __eq__(self, o: object) -> bool:
        """Whether it describes timestamps too."""
        return isinstance(o, TimestampTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The fixed name."""
        return "TimestampTypeInfo"

    def need_conversion(self) -> bool:
        """True."""
        return True

    def to_internal_type(self, dt: Any) -> Any:
        """Epoch microseconds; a datetime without zone is local."""
        if dt is None:
            return None
        if dt.tzinfo is not None:
            seconds = calendar.timegm(dt.utctimetuple())
        else:
            seconds = int(time.mktime(dt.timetuple()))
        return seconds * 1_000_000 + dt.microsecond

    def from_internal_type(self, ts: Any) -> Any:
        """The local datetime of epoch microseconds."""
        if ts is None:
            return None
        seconds, micros = divmod(ts, 1_000_000)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)


class LocalTimeTypeInfo(TypeInformation):
    """Dates and times without a zone."""

    class TimeType(Enum):
        """Which of the three."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        """Makes the description."""
        super().__init__()
        self._time_type = time_type

    @property
    def time_type(self) -> LocalTimeTypeInfo.TimeType:
        """Which of the three it is."""
        return self._time_type

    def __eq__(self, other: object) -> bool:
        """Whether it is the same of the three."""
        return isinstance(other, LocalTimeTypeInfo) and self._time_type is other._time_type

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the kind."""
        return f"LocalTimeTypeInfo({self._time_type.name})"


class PickledBytesTypeInfo(TypeInformation):
    """Any Python value: the type of everything that was not declared."""

    def __eq__(self, o: object) -> bool:
        """Whether it describes any value too."""
        return isinstance(o, PickledBytesTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The fixed name."""
        return "PickledByteArrayTypeInfo"


class _ElementTypeInfo(TypeInformation):
    """What the array and list types share: the type of the elements."""

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__()
        self._element_type = as_type_information(element_type, type(self).__name__)

    @property
    def element_type(self) -> TypeInformation:
        """The type of the elements."""
        return self._element_type

    def __eq__(self, o: object) -> bool:
        return type(o) is type(self) and self._element_type == o._element_type

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type!r}>"


class PrimitiveArrayTypeInfo(_ElementTypeInfo):
    """An array of numbers, booleans or, as `bytes`, of bytes."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Makes the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the element type."""
        return super().__repr__()


class BasicArrayTypeInfo(_ElementTypeInfo):
    """An array of scalars that may be None."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Makes the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the element type."""
        return super().__repr__()


class ObjectArrayTypeInfo(_ElementTypeInfo):
    """An array of values of any one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Makes the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the element type."""
        return super().__repr__()


class ListTypeInfo(_ElementTypeInfo):
    """A list."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Makes the description of a list with that element type."""
        super().__init__(element_type)

    def __eq__(self, other: object) -> bool:
        """Whether the element types agree."""
        return super().__eq__(other)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the element type."""
        return super().__repr__()


class MapTypeInfo(TypeInformation):
    """A dictionary."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        """Makes the description of a dictionary with these key and value types."""
        super().__init__()
        self._key_type_info = as_type_information(key_type_info, "MapTypeInfo")
        self._value_type_info = as_type_information(value_type_info, "MapTypeInfo")

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        """The type of the values."""
        return self._value_type_info

    def __eq__(self, other: object) -> bool:
        """Whether key and value types agree."""
        return (
            isinstance(other, MapTypeInfo)
            and self._key_type_info == other._key_type_info
            and self._value_type_info == other._value_type_info
        )

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with both types."""
        return f"MapTypeInfo<{self._key_type_info!r}, {self._value_type_info!r}>"


class TupleTypeInfo(TypeInformation):
    """A tuple of fixed length."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        """Makes the description of a tuple with these field types."""
        super().__init__()
        self._field_types = [as_type_information(t, "TupleTypeInfo") for t in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        """The types of the fields."""
        return self._field_types

    def __eq__(self, other: object) -> bool:
        """Whether the field types agree."""
        return isinstance(other, TupleTypeInfo) and self._field_types == other._field_types

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the field types."""
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"

    def need_conversion(self) -> bool:
        """True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """The tuple with converted fields."""
        if obj is None:
            return None
        pairs = zip(self._field_types, obj, strict=False)
        return tuple(field.to_internal_type(value) for field, value in pairs)

    def from_internal_type(self, obj: Any) -> Any:
        """The tuple with fields converted back."""
        if obj is None or not isinstance(obj, (tuple, list)):
            return obj
        pairs = zip(self._field_types, obj, strict=False)
        return tuple(field.from_internal_type(value) for field, value in pairs)


class RowTypeInfo(TypeInformation):
    """A `Row` whose fields have types and names; the names default to f0, f1 and so on."""

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        """Makes the description of a row.

        Raises:
            InvalidProgramError: There are not as many names as types, or a name occurs twice.
        """
        super().__init__()
        self._field_types = [as_type_information(t, "RowTypeInfo") for t in field_types]
        self._field_names = None if field_names is None else list(field_names)
        if self._field_names is not None:
            if len(self._field_names) != len(self._field_types):
                raise InvalidProgramError(
                    f"RowTypeInfo got {len(self._field_types)} field types "
                    f"but {len(self._field_names)} field names: {self._field_names}"
                )
            if len(set(self._field_names)) != len(self._field_names):
                raise InvalidProgramError(f"Field names must differ: {self._field_names}")

    def get_field_names(self) -> list[str]:
        """The names of the fields."""
        if self._field_names is not None:
            return self._field_names
        return [f"f{i}" for i in range(len(self._field_types))]

    def get_field_index(self, field_name: str) -> int:
        """The position of a named field, or -1."""
        names = self.get_field_names()
        return names.index(field_name) if field_name in names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """The types of the fields."""
        return self._field_types

    def __eq__(self, other: object) -> bool:
        """Whether the field types agree; names do not count."""
        return isinstance(other, RowTypeInfo) and self._field_types == other._field_types

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """The name with the field types, and with field names if they were given."""
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field!r}' for name, field in pairs)})"

    def need_conversion(self) -> bool:
        """True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """The fields in order as a tuple; takes rows, dictionaries, tuples and lists.

        Raises:
            InvalidProgramError: The value is none of these.
        """
        if obj is None:
            return None
        if isinstance(obj, dict):
            values: list[Any] = [obj.get(name) for name in self.get_field_names()]
        elif isinstance(obj, Row):
            values = obj.get_fields_by_names(self.get_field_names())
        elif isinstance(obj, (tuple, list)):
            values = list(obj)
        else:
            raise InvalidProgramError(f"{obj!r} is not a value of {self!r}")
        pairs = zip(self._field_types, values, strict=False)
        return tuple(field.to_internal_type(value) for field, value in pairs)

    def from_internal_type(self, obj: Any) -> Any:
        """A row with names of a tuple of fields."""
        if obj is None or isinstance(obj, Row):
            return obj
        pairs = zip(self._field_types, obj, strict=False)
        row = Row(*(field.from_internal_type(value) for field, value in pairs))
        row.set_field_names(self.get_field_names())
        return row


class Types:
    """Makes type descriptions."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text; None is allowed."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation:
        """An integer of 8 bits with sign."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or False."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation:
        """An integer of 16 bits with sign."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation:
        """An integer of 32 bits with sign."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation:
        """An integer of 64 bits with sign."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A number of single precision."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A number of double precision."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An integer of any size."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """`decimal.Decimal`."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> TypeInformation:
        """`penstock.common.Instant`."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """`datetime.date`."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """`datetime.time`."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """`datetime.datetime`."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python value."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:
        """A row whose fields are named f0, f1 and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> RowTypeInfo:
        """A row with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:
        """A tuple of fixed length."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """An array of numbers or booleans; of BYTE it is `bytes`.

        Raises:
            InvalidProgramError: The element type is not a number or boolean.
        """
        if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in _PRIMITIVE):
            raise InvalidProgramError(f"{element_type} is no element type of a primitive array")
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """An array of scalars or None.

        Raises:
            InvalidProgramError: The element type is not a scalar.
        """
        if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in _BASIC):
            raise InvalidProgramError(f"{element_type} is no element type of a basic array")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """An array of values of any one type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """A dictionary."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """A list."""
        return ListTypeInfo(element_type_info)


_PRIMITIVE = frozenset(
    {
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.CHAR,
    }
)
_BASIC = _PRIMITIVE | {BasicType.STRING}


def as_type_information(type_info: object, where: str) -> TypeInformation:
    """Checks an argument that must describe a type; a list describes the fields of a row.

    Args:
        type_info: The argument.
        where: The call for the message.

    Raises:
        InvalidProgramError: It is neither a TypeInformation nor a list of them.
    """
    if isinstance(type_info, TypeInformation):
        return type_info
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    raise InvalidProgramError(
        f"{where}: {type_info!r} is not a type; describe types with penstock.common.Types"
    )


def with_field_names(type_info: TypeInformation) -> TypeInformation:
    """The same type with the default names of every row written out.

    A stream reports its type in this form, however it was declared.
    """
    if isinstance(type_info, RowTypeInfo):
        fields = [with_field_names(field) for field in type_info.get_field_types()]
        return RowTypeInfo(fields, type_info.get_field_names())
    if isinstance(type_info, TupleTypeInfo):
        return TupleTypeInfo([with_field_names(field) for field in type_info.get_field_types()])
    if isinstance(type_info, (ListTypeInfo, ObjectArrayTypeInfo)):
        return type(type_info)(with_field_names(type_info.element_type))
    if isinstance(type_info, MapTypeInfo):
        return MapTypeInfo(
            with_field_names(type_info.key_type), with_field_names(type_info.value_type)
        )
    return type_info
