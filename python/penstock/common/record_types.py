"""RecordTypeInfo: the type of a class with named fields, such as a dataclass (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.names import nearest_hint
from penstock.common.composite_types import (
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.basic_types import TypeInformation


class EnumTypeInfo(PickledBytesTypeInfo):
    """A member of an enum; in columns and files it is stored as its value.

    Attributes:
        enum_class: The class of the members.
        value_type: The type of their values; any value if they are of several types.
    """

    def __init__(self, enum_class: type, value_type: TypeInformation) -> None:
        """Create the description of an enum."""
        super().__init__()
        self.enum_class = enum_class
        self.value_type = value_type

    def __eq__(self, o: object) -> bool:
        """Return whether it describes the same enum."""
        return isinstance(o, EnumTypeInfo) and o.enum_class is self.enum_class

    __hash__ = PickledBytesTypeInfo.__hash__

    def __repr__(self) -> str:
        """Return the name with that of the enum."""
        return f"EnumTypeInfo<{self.enum_class.__name__}>"


class RecordTypeInfo(PickledBytesTypeInfo):
    """A dataclass, NamedTuple, TypedDict, pydantic model or attrs class: a row with a class.

    Expressions, columns and files access its fields by their names.  Between tasks and in state its
    instances describe themselves, like those of streams without a type, so that a subclass keeps
    its class and state evolves by the names of fields.
    """

    def __init__(self, record_class: type, fields: Mapping[str, TypeInformation]) -> None:
        """Create the description of a class; use `Types.of`.

        Args:
            record_class: The class.
            fields: The types of its fields by their names, in their order.
        """
        super().__init__()
        self._record_class = record_class
        self._fields = dict(fields)

    @property
    def record_class(self) -> type:
        """Return the class of the records."""
        return self._record_class

    @property
    def is_dictionary(self) -> bool:
        """Return whether it is a TypedDict, whose records are dictionaries."""
        return issubclass(self._record_class, dict)

    @property
    def is_tuple(self) -> bool:
        """Return whether it is a NamedTuple, whose fields also have positions."""
        return issubclass(self._record_class, tuple)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._fields)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._fields.values())

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field.

        Raises:
            InvalidProgramError: There is no field with that name.
        """
        names = self.get_field_names()
        if field_name not in names:
            hint = nearest_hint(field_name, names)
            raise InvalidProgramError(f"{self!r} has no field {field_name!r}{hint}")
        return names.index(field_name)

    def __eq__(self, o: object) -> bool:
        """Return whether it describes the same class."""
        return isinstance(o, RecordTypeInfo) and o._record_class is self._record_class

    __hash__ = PickledBytesTypeInfo.__hash__

    def __repr__(self) -> str:
        """Return the name with that of the class and the fields."""
        fields = ", ".join(f"{name}: {field!r}" for name, field in self._fields.items())
        return f"RecordTypeInfo<{self._record_class.__name__}>({fields})"


def as_row_type(declared: Any) -> Any:
    """Return a type in which each record is the row of its fields, for columns and files."""
    if isinstance(declared, EnumTypeInfo):
        return declared.value_type
    if isinstance(declared, RecordTypeInfo | RowTypeInfo):
        fields = [as_row_type(field) for field in declared.get_field_types()]
        return RowTypeInfo(fields, declared.get_field_names())
    if isinstance(declared, TupleTypeInfo):
        return TupleTypeInfo([as_row_type(field) for field in declared.get_field_types()])
    if isinstance(declared, ListTypeInfo):
        return ListTypeInfo(as_row_type(declared.element_type))
    if isinstance(declared, MapTypeInfo):
        return MapTypeInfo(as_row_type(declared.key_type), as_row_type(declared.value_type))
    return declared
