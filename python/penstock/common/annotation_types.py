"""Types of annotations: the type that ``Click``, ``list[int]`` or ``str | None`` describes."""

from __future__ import annotations

import collections.abc
import datetime
import enum
import types
import typing
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicTypeInfo, TypeInformation
from penstock.common.composite_types import (
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
)
from penstock.common.record_types import EnumTypeInfo, RecordTypeInfo
from penstock.common.temporal_types import SqlTimeTypeInfo
from penstock.common.time import Instant
from penstock.common.values.records import field_names_of
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Types of builtin classes.
_SCALARS: Final[dict[Any, Callable[[], TypeInformation]]] = {
    bool: BasicTypeInfo.BOOLEAN_TYPE_INFO,
    int: BasicTypeInfo.LONG_TYPE_INFO,
    float: BasicTypeInfo.DOUBLE_TYPE_INFO,
    str: BasicTypeInfo.STRING_TYPE_INFO,
    bytes: lambda: PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO()),
    Decimal: BasicTypeInfo.BIG_DEC_TYPE_INFO,
    datetime.datetime: SqlTimeTypeInfo.TIMESTAMP,
    datetime.date: SqlTimeTypeInfo.DATE,
    datetime.time: SqlTimeTypeInfo.TIME,
    Instant: BasicTypeInfo.INSTANT_TYPE_INFO,
}
_WRAPPERS: Final = frozenset(
    getattr(typing, name)
    for name in ("Required", "NotRequired", "ReadOnly")
    if hasattr(typing, name)
)
_LISTS: Final = frozenset({list, collections.abc.Sequence, collections.abc.MutableSequence})
_MAPS: Final = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})

#: Generic classes whose arguments are the classes of their contents, in order.
_STREAMS: Final = frozenset(
    {
        list,
        collections.abc.Collection,
        collections.abc.Generator,
        collections.abc.Iterable,
        collections.abc.Iterator,
        collections.abc.Sequence,
    }
)


class UntypedError(Exception):
    """An annotation that does not determine a type; the text says why."""


def type_of(annotation: Any) -> TypeInformation:
    """Return the type of an annotation's values.

    Raises:
        InvalidProgramError: No type describes them.
    """
    try:
        return annotated(annotation)
    except UntypedError as error:
        raise InvalidProgramError(f"Types.of: {error}; describe the type with Types") from None


def annotated(annotation: Any) -> TypeInformation:
    """Return the type of an annotation's values.

    Raises:
        UntypedError: No type describes them.
    """
    return _Reader().read(annotation)


def annotated_elements(annotation: Any) -> TypeInformation | None:
    """Return the type of an iterable annotation's contents; None if it is always None.

    Raises:
        UntypedError: The annotation is not an iterable's, or no type describes its contents.
    """
    choices = _without_none(annotation)
    if not choices:
        return None
    if len(choices) == 1 and typing.get_origin(choices[0]) in _STREAMS:
        return annotated(typing.get_args(choices[0])[0])
    raise UntypedError(f"{_shown(annotation)} does not say what it contains")


class _Reader:
    """Reads one annotation; tracks the classes around the part that it reads."""

    def __init__(self) -> None:
        self._around: list[Any] = []
        #: The arguments of generic classes around the part, by type variable.
        self._given: dict[Any, Any] = {}

    def read(self, annotation: Any) -> TypeInformation:
        if isinstance(annotation, TypeInformation):
            return annotation
        if isinstance(annotation, typing.TypeVar):
            if annotation not in self._given:
                raise UntypedError(f"{annotation} may be any type")
            return self.read(self._given[annotation])
        made = _SCALARS.get(annotation) if isinstance(annotation, type) else None
        if made is not None:
            return made()
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return next((a for a in arguments if isinstance(a, TypeInformation)), None) or (
                self.read(arguments[0])
            )
        if origin in _WRAPPERS:
            return self.read(arguments[0])
        if origin is typing.Literal:
            return self._common(map(type, arguments), annotation)
        if origin in (typing.Union, types.UnionType):
            choices = _without_none(annotation)
            if len(choices) != 1:
                raise UntypedError(f"{_shown(annotation)} allows values of several types")
            return self.read(choices[0])
        if origin in _LISTS:
            return ListTypeInfo(self.read(arguments[0]))
        if origin in _MAPS:
            return MapTypeInfo(self.read(arguments[0]), self.read(arguments[1]))
        if origin is tuple:
            if not arguments or arguments[-1] is Ellipsis:
                raise UntypedError(f"{_shown(annotation)} has any number of fields")
            return TupleTypeInfo([self.read(argument) for argument in arguments])
        if hasattr(annotation, "__supertype__"):
            return self.read(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # of a type statement
            return self.read(annotation.__value__)
        return self._class(annotation if origin is None else origin, annotation)

    def _class(self, cls: Any, annotation: Any) -> TypeInformation:
        if isinstance(cls, enum.EnumMeta):
            return EnumTypeInfo(cls, self._value_type(cls))
        names = tuple(cls.__annotations__) if typing.is_typeddict(cls) else None
        if names is None and isinstance(cls, type):
            names = field_names_of(cls)
        if names is None:
            raise UntypedError(f"{_shown(annotation)} has no type of its own")
        if cls in self._around:
            raise UntypedError(f"{_shown(annotation)} contains itself")
        hints = _hints_of(cls)
        declaring = _declaring(annotation, self._given)
        given = self._given
        self._around.append(cls)
        fields = {}
        for name in names:
            self._given = next((a for c, a in declaring if name in vars(c)["__annotations__"]), {})
            fields[name] = self._field(hints.get(name))
        self._given = given
        self._around.pop()
        return RecordTypeInfo(cls, fields)

    def _field(self, annotation: Any) -> TypeInformation:
        try:
            return self.read(annotation)
        except UntypedError:
            return PickledBytesTypeInfo()

    def _value_type(self, cls: Any) -> TypeInformation:
        try:
            return self._common({type(member.value) for member in cls}, cls)
        except UntypedError:
            return PickledBytesTypeInfo()

    def _common(self, classes: Iterable[Any], annotation: Any) -> TypeInformation:
        found = set(classes)
        if len(found) != 1:
            raise UntypedError(f"{_shown(annotation)} allows values of several types")
        return self.read(found.pop())


def _declaring(annotation: Any, around: dict[Any, Any]) -> list[tuple[Any, dict[Any, Any]]]:
    """Return the classes that declare the fields of a class, with arguments by type variable.

    The class comes before its bases.

    Args:
        annotation: The class, with arguments if it is generic.
        around: Arguments for the type variables of the annotation.
    """
    cls = typing.get_origin(annotation) or annotation
    parameters, arguments = getattr(cls, "__parameters__", ()), typing.get_args(annotation)
    model = vars(cls).get("__pydantic_generic_metadata__", {})
    if model.get("origin"):
        cls, arguments = model["origin"], model["args"]
        parameters = vars(cls)["__pydantic_generic_metadata__"]["parameters"]
    given = {
        variable: found
        for variable, argument in zip(parameters, arguments, strict=False)
        if not getattr(found := _substituted(argument, around), "__parameters__", ())
        and not isinstance(found, typing.TypeVar)
    }
    found = [(cls, given)] if "__annotations__" in vars(cls) else []
    for base in vars(cls).get("__orig_bases__", cls.__bases__):
        if isinstance(typing.get_origin(base) or base, type):
            found += _declaring(base, given)
    return found


def _substituted(argument: Any, given: dict[Any, Any]) -> Any:
    """Return an argument whose type variables are replaced where they are known."""
    if isinstance(argument, typing.TypeVar):
        return given.get(argument, argument)
    parameters = getattr(argument, "__parameters__", ())
    if not parameters or isinstance(argument, type):
        return argument
    return argument[tuple(given.get(variable, variable) for variable in parameters)]


def _without_none(annotation: Any) -> list[Any]:
    """Return the alternatives of an annotation other than None."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [choice for choice in typing.get_args(annotation) if choice is not type(None)]
    return [] if annotation is None or annotation is type(None) else [annotation]


def _hints_of(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:  # for example, a name that does not exist, or is not a class
        raise UntypedError(f"the annotations of {cls.__name__} cannot be read: {error}") from None


def _shown(annotation: Any) -> str:
    return annotation.__name__ if type(annotation) is type else str(annotation)
