"""Type descriptions, which determine the codecs of the data plane.

``str()`` of a description, its equality and the names of fields are those of PyFlink.  A
description has no codec itself: `penstock.serialization.codec` creates one from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.basic_types import BasicType, BasicTypeInfo, InstantTypeInfo, TypeInformation
from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.missing_methods import SnakeCaseHints
from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    as_type_information,
    with_field_names,
)
from penstock.common.record_types import EnumTypeInfo, RecordTypeInfo
from penstock.common.temporal_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    LocalZonedTimestampTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    import datetime
    from decimal import Decimal

    from penstock.common.time import Instant

KEY = TypeVar("KEY")
VALUE = TypeVar("VALUE")

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "EnumTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "LocalZonedTimestampTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RecordTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "as_type_information",
    "with_field_names",
]


class Types(metaclass=SnakeCaseHints):
    """Creates type descriptions."""

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """Return the type of strings; None is allowed."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """Return the type of signed 8-bit integers."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """Return the type of True and False."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """Return the type of signed 16-bit integers."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation[int]:
        """Return the type of signed 32-bit integers."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """Return the type of signed 64-bit integers."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """Return the type of single-precision numbers."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """Return the type of double-precision numbers."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """Return the type of single characters."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """Return the type of integers of any size."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """Return the type of `decimal.Decimal`."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """Return the type of `penstock.common.Instant`."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation[datetime.date]:
        """Return the type of `datetime.date`."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation[datetime.time]:
        """Return the type of `datetime.time`."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime.datetime]:
        """Return the type of `datetime.datetime`; values with a zone are converted to UTC."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def TIMESTAMP_LTZ() -> TypeInformation[datetime.datetime]:
        """Return the type of points of time, as `datetime.datetime` in UTC (beyond PyFlink)."""
        return LocalZonedTimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Return the type of any Python value."""
        return PickledBytesTypeInfo()

    @staticmethod
    @former_keywords(types="field_types")
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with fields f0, f1 and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    @former_keywords(names="field_names", types="field_types")
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    @former_keywords(types="field_types")
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:
        """Return the type of tuples of fixed length."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """Return the type of arrays of numbers or booleans; for BYTE, of `bytes`.

        Raises:
            InvalidProgramError: The element type is not a number or boolean.
        """
        if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in _PRIMITIVE):
            raise InvalidProgramError(f"{element_type} is not an element type of a primitive array")
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """Return the type of arrays of scalars or None.

        Raises:
            InvalidProgramError: The element type is not a scalar.
        """
        if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in _BASIC):
            raise InvalidProgramError(f"{element_type} is not an element type of a basic array")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """Return the type of arrays of values of one type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(
        key_type_info: TypeInformation[KEY], value_type_info: TypeInformation[VALUE]
    ) -> MapTypeInfo[KEY, VALUE]:
        """Return the type of dictionaries."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[VALUE]) -> ListTypeInfo[VALUE]:
        """Return the type of lists."""
        return ListTypeInfo(element_type_info)

    @overload
    @staticmethod
    def of(annotation: type[VALUE]) -> TypeInformation[VALUE]: ...

    @overload
    @staticmethod
    def of(annotation: Any) -> TypeInformation: ...

    @staticmethod
    def of(annotation: Any) -> TypeInformation:
        """Return the type of the values of a class or an annotation (beyond PyFlink).

        ``Types.of(Click)`` of a dataclass, NamedTuple, TypedDict, pydantic model or attrs class is
        a `RecordTypeInfo`; ``Types.of(list[int])`` is ``Types.LIST(Types.LONG())``.

        Raises:
            InvalidProgramError: No type describes the values.
        """
        from penstock.common.annotation_types import type_of

        return type_of(annotation)


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
