"""Descriptions of composite values: arrays, lists, maps, tuples and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from penstock.common.basic_types import VALUE, TypeInformation
from penstock.common.calls.names import checked_name
from penstock.common.types import Row
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeVar

    #: The keys of a dictionary, and the elements of an array or list.
    KEY = TypeVar("KEY", covariant=True, default=Any)
    ELEMENT = TypeVar("ELEMENT", covariant=True, default=Any)
else:
    from typing import TypeVar

    KEY = TypeVar("KEY", covariant=True)
    ELEMENT = TypeVar("ELEMENT", covariant=True)


class PickledBytesTypeInfo(TypeInformation[VALUE]):
    """Any Python value: the type of everything that was not declared."""

    def __eq__(self, o: object) -> bool:
        """Return whether the other one describes any value too."""
        return isinstance(o, PickledBytesTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the fixed name."""
        return "PickledByteArrayTypeInfo"


class _ElementTypeInfo(TypeInformation[VALUE]):
    """Base of array and list types, which have an element type."""

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
        """Create the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Return whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the element type."""
        return super().__repr__()


class BasicArrayTypeInfo(_ElementTypeInfo):
    """An array of scalars that may be None."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Create the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Return whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the element type."""
        return super().__repr__()


class ObjectArrayTypeInfo(_ElementTypeInfo):
    """An array of values of any one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        """Create the description of an array with that element type."""
        super().__init__(element_type)

    def __eq__(self, o: object) -> bool:
        """Return whether the element types agree."""
        return super().__eq__(o)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the element type."""
        return super().__repr__()


class ListTypeInfo(_ElementTypeInfo[list[ELEMENT]], Generic[ELEMENT]):
    """A list."""

    def __init__(self, element_type: TypeInformation[ELEMENT]) -> None:
        """Create the description of a list with that element type."""
        super().__init__(element_type)

    def __eq__(self, other: object) -> bool:
        """Return whether the element types agree."""
        return super().__eq__(other)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the element type."""
        return super().__repr__()


class MapTypeInfo(TypeInformation[dict[KEY, ELEMENT]], Generic[KEY, ELEMENT]):
    """A dictionary."""

    def __init__(
        self, key_type_info: TypeInformation[KEY], value_type_info: TypeInformation[ELEMENT]
    ) -> None:
        """Create the description of a dictionary with these key and value types."""
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
        """Return whether key and value types agree."""
        return (
            isinstance(other, MapTypeInfo)
            and self._key_type_info == other._key_type_info
            and self._value_type_info == other._value_type_info
        )

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with both types."""
        return f"MapTypeInfo<{self._key_type_info!r}, {self._value_type_info!r}>"


class TupleTypeInfo(TypeInformation[tuple[Any, ...]]):
    """A tuple of fixed length."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        """Create the description of a tuple with these field types."""
        super().__init__()
        self._field_types = [as_type_information(t, "TupleTypeInfo") for t in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return self._field_types

    def __eq__(self, other: object) -> bool:
        """Return whether the field types agree."""
        return isinstance(other, TupleTypeInfo) and self._field_types == other._field_types

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the field types."""
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Return the tuple with converted fields, from a tuple, list or row.

        Raises:
            InvalidProgramError: The value is none of these.
        """
        if obj is None:
            return None
        if not isinstance(obj, (tuple, list, Row)):
            raise InvalidProgramError(f"{obj!r} is not a value of {self!r}")
        pairs = zip(self._field_types, obj, strict=False)
        return tuple(field.to_internal_type(value) for field, value in pairs)

    def from_internal_type(self, obj: Any) -> Any:
        """Return the tuple with its fields converted back."""
        if obj is None or isinstance(obj, (tuple, list)):
            return obj
        pairs = zip(self._field_types, obj, strict=False)
        return tuple(field.from_internal_type(value) for field, value in pairs)


class RowTypeInfo(TypeInformation[Row]):
    """A `Row` whose fields have types and names; the names default to f0, f1 and so on."""

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        """Create the description of a row.

        Raises:
            InvalidProgramError: There are not as many names as types, a name occurs twice, or it
                cannot be stored.
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
            for name in self._field_names:
                checked_name("a field", name)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields."""
        if self._field_names is not None:
            return self._field_names
        return [f"f{i}" for i in range(len(self._field_types))]

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a named field; -1 if the fields have no names.

        Raises:
            ValueError: The fields have names, and none has that one.
        """
        names = self.get_field_names()
        if field_name not in names:
            if not self._field_names:
                return -1
            raise ValueError(f"the row has no field {field_name!r}, it has {names}")
        return names.index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return self._field_types

    def __eq__(self, other: object) -> bool:
        """Return whether the field types are equal, regardless of names."""
        return isinstance(other, RowTypeInfo) and self._field_types == other._field_types

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the field types, and with field names if they were given."""
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field!r}' for name, field in pairs)})"

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Return the fields in order as a tuple, from a row, dictionary, tuple or list.

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
        """Return a named row from a tuple of fields."""
        if obj is None or isinstance(obj, Row):
            return obj
        pairs = zip(self._field_types, obj, strict=False)
        row = Row(*(field.from_internal_type(value) for field, value in pairs))
        row.set_field_names(self.get_field_names())
        return row


def as_type_information(type_info: object, where: str) -> TypeInformation:
    """Check an argument that must describe a type; a list describes the fields of a row.

    Column types, which ``DataTypes`` of the Table API creates, are accepted too.

    Args:
        type_info: The argument.
        where: The call, for the message.

    Raises:
        InvalidProgramError: It is neither a TypeInformation nor a list of them.
    """
    if isinstance(type_info, TypeInformation):
        return type_info
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    of_table = getattr(type(type_info), "__type_information__", None)
    if of_table is not None:
        # A column type, created by DataTypes.
        found: TypeInformation = of_table(type_info)
        return found
    raise WrongArgumentError(
        f"{where}: {type_info!r} is not a type; describe types with penstock.common.Types"
    )


def with_field_names(type_info: TypeInformation) -> TypeInformation:
    """Return the same type with explicit default names of every row.

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
