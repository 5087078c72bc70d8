"""The base of type descriptions, and the scalar types."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.time import Instant

if TYPE_CHECKING:
    from decimal import Decimal

    from typing_extensions import TypeVar

    #: The Python values that a type describes: a plain ``TypeInformation`` describes any.
    VALUE = TypeVar("VALUE", covariant=True, default=Any)
else:
    from typing import TypeVar

    VALUE = TypeVar("VALUE", covariant=True)


class TypeInformation(NoJavaMembers, Generic[VALUE]):
    """Describes the values of a stream, a key or a state."""

    def __init__(self) -> None:
        """Create a description."""

    def get_java_type_info(self) -> NoReturn:
        """Reject the call: a description has no Java type."""
        requires_jvm(f"{type(self).__name__}.get_java_type_info", "use the description itself")

    def need_conversion(self) -> bool:
        """Return whether `to_internal_type` changes a value."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Return a value in the form that a serializer writes."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return a value from the form that a serializer reads."""
        return obj

    def __hash__(self) -> int:
        """Return a hash that agrees with the structural equality of every subclass."""
        return hash(type(self).__name__)


class BasicType(Enum):
    """The scalar types, with their names as returned by `str`."""

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


class BasicTypeInfo(TypeInformation[VALUE]):
    """A scalar."""

    def __init__(self, basic_type: BasicType) -> None:
        """Create a description of a scalar type."""
        super().__init__()
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        """Return the scalar type."""
        return self._basic_type

    def __eq__(self, o: object) -> bool:
        """Return whether it is the same scalar type."""
        return isinstance(o, BasicTypeInfo) and self._basic_type is o._basic_type

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name of the scalar type."""
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo[str]:
        """Return the type of strings of any length."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo[bool]:
        """Return the type of True and False."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo[int]:
        """Return the type of signed 8-bit integers."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo[int]:
        """Return the type of signed 16-bit integers."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo[int]:
        """Return the type of signed 32-bit integers."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo[int]:
        """Return the type of signed 64-bit integers."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo[float]:
        """Return the type of single-precision numbers."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo[float]:
        """Return the type of double-precision numbers."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo[str]:
        """Return the type of single characters."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo[int]:
        """Return the type of integers of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo[Decimal]:
        """Return the type of decimal numbers of any precision."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo[Instant]:
        """Return the type of points in time."""
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo[Instant]):
    """A point in time with nanoseconds."""

    def __init__(self, basic_type: BasicType) -> None:
        """Create the description."""
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        """Return True: a serializer writes epoch microseconds."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Return the epoch microseconds of an Instant."""
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        """Return the Instant of epoch microseconds."""
        if obj is None:
            return None
        seconds, micros = divmod(obj, 1_000_000)
        return Instant(seconds, micros * 1000)
