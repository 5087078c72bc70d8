"""Keys that are fields of records, named by `key_by`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.values.records import record_field
from penstock.datastream.functions import KeySelector
from penstock.errors import WrongArgumentError
from penstock.expressions import Expression, as_tuple, field
from penstock.expressions.checking import kind_of

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


def key_type_apart(*arguments: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the parts of a key from the arguments of `key_by`, and the type of the key or None."""
    first, *others = arguments
    if not isinstance(others[-1], str | Expression):
        *others, key_type = others
        return (first, *others), key_type
    return (first, *others), None


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
