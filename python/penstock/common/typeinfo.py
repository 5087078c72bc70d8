"""Type descriptions, by which the codecs of the data plane are chosen.

``str()`` of a description, its equality and the names of fields are those of PyFlink.  A
description has no codec itself: `penstock.serialization.codec` creates one from it.
"""

from __future__ import annotations

from typing import Any

from penstock.common.basic_types import BasicType, BasicTypeInfo, InstantTypeInfo, TypeInformation
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


class Types:
    """Creates type descriptions."""

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
        """`datetime.datetime`; one with a zone stays a point of time, and gets the zone UTC."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def TIMESTAMP_LTZ() -> TypeInformation:
        """`datetime.datetime` that is a point of time, in UTC (beyond PyFlink)."""
        return LocalZonedTimestampTypeInfo()

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
            raise InvalidProgramError(f"{element_type} is not an element type of a primitive array")
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """An array of scalars or None.

        Raises:
            InvalidProgramError: The element type is not a scalar.
        """
        if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in _BASIC):
            raise InvalidProgramError(f"{element_type} is not an element type of a basic array")
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
