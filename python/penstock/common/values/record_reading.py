"""Creates records of a declared class from rows, dictionaries and tuples."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from penstock.common.calls.names import nearest_hint
from penstock.common.composite_types import ListTypeInfo, MapTypeInfo, TupleTypeInfo
from penstock.common.record_types import EnumTypeInfo, RecordTypeInfo
from penstock.common.types import Row
from penstock.common.values.records import is_record
from penstock.errors import FormatError, InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.common.basic_types import TypeInformation


def reader_of(declared: TypeInformation) -> Callable[[Any], Any] | None:
    """Return the conversion to values of a type; None if there is nothing to convert.

    Records become instances of their class, and values of enums their members, also within lists,
    maps, tuples and other records.
    """
    convert: Callable[[Any], Any] | None = None
    if isinstance(declared, RecordTypeInfo):
        convert = RecordReader(declared)
    elif isinstance(declared, EnumTypeInfo):
        convert = declared.enum_class
    elif isinstance(declared, ListTypeInfo):
        convert = _elements(reader_of(declared.element_type))
    elif isinstance(declared, MapTypeInfo):
        convert = _entries(reader_of(declared.key_type), reader_of(declared.value_type))
    elif type(declared) is TupleTypeInfo:
        convert = _tuple(list(map(reader_of, declared.get_field_types())))
    if convert is None:
        return None
    found = convert
    return lambda value: None if value is None else found(value)


class RecordReader:
    """Creates instances of one class."""

    def __init__(self, declared: RecordTypeInfo) -> None:
        """Create a reader for a class.

        Args:
            declared: The type of its instances.
        """
        self._declared = declared
        self._class: Any = declared.record_class
        self._names = declared.get_field_names()
        self._readers = {
            name: read
            for name, read in zip(
                self._names, map(reader_of, declared.get_field_types()), strict=True
            )
            if read is not None
        }
        #: The fields that the constructor does not accept.
        self._later: list[str] = []
        #: The parameters of the constructor, by fields with another name.
        self._parameters: dict[str, str] = {}
        if dataclasses.is_dataclass(self._class):
            self._later = [
                field.name for field in dataclasses.fields(self._class) if not field.init
            ]
        for field in _attrs_fields(self._class):
            if not field.init:
                self._later.append(field.name)
            elif field.alias != field.name:
                self._parameters[field.name] = field.alias
        if hasattr(self._class, "__pydantic_core_schema__"):
            self._parameters = _aliases(self._class)

    def __call__(self, value: Any) -> Any:
        """Return an instance with the fields of a row, dictionary, tuple or other record.

        Raises:
            FormatError: The value lacks fields of the class.
        """
        if not self._declared.is_dictionary and isinstance(value, self._class):
            return value
        fields = self._fields(value)
        for name, read in self._readers.items():
            if name in fields:
                fields[name] = read(fields[name])
        if self._declared.is_dictionary:
            return fields
        for name in self._later:
            fields.pop(name, None)
        if self._parameters:
            fields = {self._parameters.get(name, name): each for name, each in fields.items()}
        try:
            return self._class(**fields)
        except (TypeError, ValueError) as error:
            raise FormatError(
                f"{value!r:.200} cannot become a {self._class.__name__}: {error}"
            ) from error

    def _fields(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return {name: value[name] for name in self._names if name in value}
        if isinstance(value, Row):
            there = value._field_names()
            if there is not None:
                found = dict(zip(there, value, strict=True))
                return {name: found[name] for name in self._names if name in found}
        if isinstance(value, Row | tuple | list):
            if len(value) != len(self._names):
                raise FormatError(
                    f"{value!r:.200} has {len(value)} fields, and {self._class.__name__} has "
                    f"{len(self._names)}: {', '.join(self._names)}"
                )
            return dict(zip(self._names, value, strict=True))
        if not is_record(value):
            raise FormatError(f"{value!r:.200} has no fields for a {self._class.__name__}")
        return {name: getattr(value, name) for name in self._names if hasattr(value, name)}


def check_fields(declared: RecordTypeInfo, names: Collection[str], where: str) -> None:
    """Reject rows that lack a required field of a class.

    Args:
        declared: The type of the class.
        names: The names of the fields of the rows.
        where: The call, for messages.

    Raises:
        InvalidProgramError: A field is missing.
    """
    for name in _required(declared):
        if name not in names:
            raise InvalidProgramError(
                f"{where}: {declared.record_class.__name__} needs the field {name!r}, which the "
                f"rows lack: they have {', '.join(names)}{nearest_hint(name, names)}"
            )


def _required(declared: RecordTypeInfo) -> list[str]:
    cls: Any = declared.record_class
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        return [
            field.name
            for field in dataclasses.fields(cls)
            if field.init and field.default is missing and field.default_factory is missing
        ]
    if declared.is_dictionary:
        return sorted(cls.__required_keys__)
    if declared.is_tuple:
        return [name for name in declared.get_field_names() if name not in cls._field_defaults]
    if hasattr(cls, "__pydantic_core_schema__"):
        return [name for name, field in cls.model_fields.items() if field.is_required()]
    # A class of attrs: the package is loaded if there is such a class.
    without_default = sys.modules["attr"].NOTHING
    fields = _attrs_fields(cls)
    return [field.name for field in fields if field.init and field.default is without_default]


def _attrs_fields(cls: Any) -> tuple[Any, ...]:
    """Return the descriptions of an attrs class's fields; none for other classes."""
    found: tuple[Any, ...] = getattr(cls, "__attrs_attrs__", ())
    return found


def _aliases(model: Any) -> dict[str, str]:
    """Return the aliases that a pydantic model validates instead of the names of its fields.

    Raises:
        InvalidProgramError: An alias is not a single name.
    """
    config = model.model_config
    if config.get("populate_by_name") or config.get("validate_by_name"):
        return {}
    aliases = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        for choice in getattr(alias, "choices", ()):
            if isinstance(choice, str):
                alias = choice
                break
        if alias is not None and not isinstance(alias, str):
            raise InvalidProgramError(
                f"rows cannot become a {model.__name__}: the field {name!r} is validated by "
                f"{alias}, which is not a name; set populate_by_name=True in its model_config"
            )
        if alias is not None:
            aliases[name] = alias
    return aliases


def _elements(read: Any) -> Any:
    return None if read is None else lambda values: [read(value) for value in values]


def _entries(read_key: Any, read_value: Any) -> Any:
    if read_key is None and read_value is None:
        return None
    of_key, of_value = read_key or _same, read_value or _same
    return lambda entries: {of_key(key): of_value(value) for key, value in entries.items()}


def _tuple(readers: list[Any]) -> Any:
    if not any(readers):
        # A tuple in a column is read as a row.
        return lambda values: tuple(values) if isinstance(values, Row | list) else values
    return lambda values: tuple(
        value if read is None else read(value) for read, value in zip(readers, values, strict=True)
    )


def _same(value: Any) -> Any:
    return value
