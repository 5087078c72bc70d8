"""Fields of records that keys and aggregations name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.names import nearest_hint
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RecordTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.values.records import record_field
from penstock.datastream.data_stream.type_arguments import type_argument
from penstock.datastream.functions import KeySelector
from penstock.datastream.functions.basic import NamedRowKeySelector
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions import Expression, as_tuple, field
from penstock.expressions.checking import kind_of

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.type_arguments import TypeArgument


def key_type_apart(*arguments: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the parts of a key from the arguments of `key_by`, and the type of the key or None."""
    first, *others = arguments
    if not isinstance(others[-1], str | Expression):
        *others, key_type = others
        return (first, *others), key_type
    return (first, *others), None


def shipped_selector(function: Any, key_type: TypeArgument) -> tuple[Any, TypeInformation | None]:
    """Return the key selector that workers call, and the type of its keys.

    Raises:
        InvalidProgramError: The function or the type is invalid, or the function cannot be pickled.
    """
    check_function(function, KeySelector, "key_by", or_callable=True)
    selector: Any = shipped(function, "key_by")
    declared = type_argument(key_type, "key_by")
    if isinstance(declared, RowTypeInfo):
        selector = NamedRowKeySelector(selector, declared.get_field_names())
    return selector, declared


def key_selector_of(
    given: tuple[Any, ...], element_type: TypeInformation, where: str = "key_by"
) -> Any:
    """Return the key selector for arguments that are functions, names or expressions.

    Args:
        given: A function of any kind, or names of fields and expressions.
        element_type: The type of the records.  Names are looked up in it if it has fields;
            otherwise they are looked up in each record.
        where: The call, for messages.

    Raises:
        WrongArgumentError: A function is combined with other arguments.
    """
    first, *others = given
    if not others and not isinstance(first, str):
        return first
    for part in given:
        if not isinstance(part, str | Expression):
            raise WrongArgumentError(
                f"{where} takes one function, or names of fields and expressions such as "
                f'"user", "day", got {part!r}'
            )
    if kind_of(element_type) == "any" and all(isinstance(part, str) for part in given):
        return FieldsKeySelector(given)
    expressions = [field(part) if isinstance(part, str) else part for part in given]
    return as_tuple(*expressions) if others else expressions[0]


class FieldsKeySelector(KeySelector):
    """A selector of fields by name, for records of any class: one field, or a tuple of several."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Store the names."""
        self._names = names

    def get_key(self, value: Any) -> Any:
        """Return the key."""
        if len(self._names) == 1:
            return record_field(value, self._names[0])
        return tuple(record_field(value, name) for name in self._names)


def aggregated_field(row: TypeInformation, position: int | str, operation: str) -> int | str:
    """Check the field of an aggregation; a name that the type has becomes a position.

    A negative position counts from the end, as in Python.

    Raises:
        InvalidProgramError: The type has no such field, or its fields have no names.
    """
    given: Any = position
    if not isinstance(given, (int, str)):
        raise InvalidProgramError(
            f"{operation} takes the position or the name of a field, got {given!r}"
        )
    if isinstance(row, RecordTypeInfo):
        return _record_field(row, position, operation)
    if isinstance(row, RowTypeInfo) and isinstance(position, str):
        names = row.get_field_names()
        if position not in names:
            raise InvalidProgramError(
                f"{operation}: {row} has no field {position!r}{nearest_hint(position, names)}"
            )
        return row.get_field_index(position)
    if isinstance(row, (RowTypeInfo, TupleTypeInfo)) and isinstance(position, int):
        count = len(row.get_field_types())
        if not -count <= position < count:
            raise InvalidProgramError(f"{operation}: {row} has no field {position}")
        return position % count
    if isinstance(row, TupleTypeInfo) and isinstance(position, str):
        raise InvalidProgramError(
            f"{operation}: the fields of {row} have no names, so there is no {position!r}: "
            "give the position, from 0, or declare a Types.ROW_NAMED"
        )
    return position if isinstance(position, str) else int(position)


def has_array(key_type: TypeInformation) -> bool:
    """Return whether a type is, or contains, an array."""
    if isinstance(key_type, (RowTypeInfo, TupleTypeInfo)):
        return any(map(has_array, key_type.get_field_types()))
    return isinstance(key_type, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo))


def _record_field(record: RecordTypeInfo, field: int | str, operation: str) -> int | str:
    """Return the field of a record that an aggregation names, as a position for NamedTuples."""
    names = record.get_field_names()
    if isinstance(field, str) and field not in names:
        hint = nearest_hint(field, names)
        raise InvalidProgramError(f"{operation}: {record} has no field {field!r}{hint}")
    if isinstance(field, int) and record.is_tuple and not -len(names) <= field < len(names):
        raise InvalidProgramError(f"{operation}: {record} has no field {field}")
    return int(field) if isinstance(field, int) else field
