"""Checks of aggregates when a program is built: their arguments, types and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.declarations import USER_DEFINED, Aggregate
from penstock.aggregates.named import Call, KeyFields, NamedAggregates
from penstock.columns.batch_schema import fields_of
from penstock.common.composite_types import (
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    as_type_information,
)
from penstock.common.record_types import EnumTypeInfo, RecordTypeInfo
from penstock.common.typeinfo import Types
from penstock.datastream.functions.basic import AggregateFunction
from penstock.datastream.functions.function import check_function
from penstock.errors import InvalidProgramError
from penstock.expressions.checking import kind_of
from penstock.expressions.computed import ComputedFunction, computed, computed_by
from penstock.expressions.expression import Expression
from penstock.expressions.functions import bound_function
from penstock.expressions.nodes import Field, Gather
from penstock.expressions.writing import field
from penstock.serialization.key_selection import field_of, part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.typeinfo import TypeInformation

_NUMBERS: Final = ("integer", "float")

#: Kinds of values of which there are sketches.
_SKETCHED: Final = (*_NUMBERS, "string", "boolean")


def named_aggregates(
    given: Mapping[str, Aggregate], declared: TypeInformation | None, where: str
) -> tuple[NamedAggregates, list[tuple[str, TypeInformation]]]:
    """Return the aggregates of an operator, and the names and types of their results.

    Args:
        given: The aggregates, by the name of the result.
        declared: The type of the records.
        where: The call, for messages.

    Raises:
        InvalidProgramError: There are no aggregates, one is not an aggregate, an argument cannot be
            computed, or its type is unknown or does not fit the aggregate.
    """
    found: Any = given
    if not isinstance(found, Mapping) or not found:
        shown = found.function if isinstance(found, Aggregate) else repr(found)
        raise InvalidProgramError(
            f"{where} takes a dictionary of aggregates by the names of their results, such as "
            f'{{"total": sum("price")}}, got {shown}'
        )
    arguments = _Arguments(declared, where)
    calls, fields = [], []
    for name, aggregate in found.items():
        if not isinstance(aggregate, Aggregate):
            raise InvalidProgramError(
                f"{where}: {name!r} must be an aggregate such as penstock.aggregates.count(), "
                f"got {aggregate!r}"
            )
        places = [arguments.place(argument, name) for argument in aggregate.arguments]
        condition = None
        if aggregate.where is not None:
            condition, kind = arguments.place(aggregate.where, name)
            if kind_of(kind) != "boolean":
                raise InvalidProgramError(
                    f"{where}: where= of {name!r} must be a condition, it is {kind}"
                )
        types = tuple(_bounded(kind) for _, kind in places)
        function = aggregate.user_function
        positions = tuple(at for at, _ in places)
        if aggregate.function == USER_DEFINED:
            check_function(function, AggregateFunction, f"{where}: {name!r}", or_callable=False)
            fields.append((name, as_type_information(aggregate.output_type, f"{where}: {name!r}")))
        else:
            fields.append((name, _result(aggregate.function, [kind for _, kind in places], name)))
        calls.append(Call(aggregate.function, positions, condition, types, function))
    return NamedAggregates(calls, arguments.function()), fields


class _Arguments:
    """The arguments of aggregates, each computed once."""

    def __init__(self, declared: TypeInformation | None, where: str) -> None:
        self._declared = declared
        self._where = where
        self._nodes: list[Any] = []

    def place(self, argument: Any, name: str) -> tuple[int, TypeInformation]:
        """Return the position and the type of an argument."""
        expression = argument if isinstance(argument, Expression) else field(argument)
        found = computed(expression, f"{self._where}: {name!r}", [self._declared])
        if isinstance(found.type, EnumTypeInfo | RecordTypeInfo):
            raise InvalidProgramError(
                f"{self._where}: {name!r} takes numbers, texts and other plain values, not "
                f"{found.type}"
            )
        if found.type is None or isinstance(found.type, PickledBytesTypeInfo):
            raise InvalidProgramError(
                f"{self._where}: the type of {found.node}, which {name!r} takes, is unknown: "
                "declare the stream's type with output_type"
            )
        if found.node not in self._nodes:
            self._nodes.append(found.node)
        return self._nodes.index(found.node), found.type

    def function(self) -> ComputedFunction | None:
        """Return the function that computes all arguments; None if there are none."""
        if not self._nodes:
            return None
        return ComputedFunction(Gather("tuple", tuple(self._nodes)), 1)


def _result(function: str, types: Sequence[TypeInformation], name: str) -> TypeInformation:
    """Return the type of an aggregate's result."""
    if function == "approximate_distinct" and kind_of(types[0]) not in _SKETCHED:
        raise InvalidProgramError(
            f"{name!r}: count_distinct(approximate=True) takes a number, a string or a boolean, "
            f"not {types[0]}: cast it to a string, or count exactly"
        )
    if function in ("count", "count_distinct", "approximate_distinct"):
        return Types.LONG()
    if function in ("sum", "mean"):
        kind = kind_of(types[0])
        if kind not in _NUMBERS:
            raise InvalidProgramError(f"{name!r}: {function} takes a number, not {types[0]}")
        return Types.LONG() if kind == "integer" and function == "sum" else Types.DOUBLE()
    found = _bounded(types[0])
    return Types.LIST(found) if function == "collect" else found


def _bounded(found: TypeInformation) -> TypeInformation:
    """Return the type of a value in a row: computed integers have 64 bits."""
    return Types.LONG() if found == Types.BIG_INT() else found


def key_fields(
    selector: Any,
    key_type: TypeInformation | None,
    declared: TypeInformation | None,
    names: Sequence[str] | None,
    where: str,
) -> KeyFields:
    """Return the fields of a stream's keys.

    Args:
        selector: The key selector.
        key_type: The declared type of the keys, or None.
        declared: The type of the records.
        names: The names that the program sets; None for the names of the selected fields.
        where: The call, for messages.

    Raises:
        InvalidProgramError: The type of the keys is unknown, or the number of names differs.
    """
    found, _ = _named_key(selector, key_type, declared, names, where)
    if found is None:
        raise _unknown_keys(where)
    return found


def computed_key_fields(
    selector: Any,
    key_type: TypeInformation | None,
    declared: TypeInformation,
    names: Sequence[str] | None,
    where: str,
) -> tuple[KeyFields, tuple[int, ...]] | None:
    """Return the fields of a stream's keys, and the positions of those that records do not have.

    Args:
        selector: The key selector.
        key_type: The declared type of the keys, or None.
        declared: The type of the records.
        names: The names that the program sets; None for the names of the selected fields.
        where: The call, for messages.

    Returns:
        None if the type of the keys is unknown, and the program sets no names.

    Raises:
        InvalidProgramError: The program names keys of an unknown type, the number of names differs,
            or records have another field of the name.
    """
    found, nodes = _named_key(selector, key_type, declared, names, where)
    if found is None:
        if names is not None:
            raise _unknown_keys(where)
        return None
    own = [name for name, _ in fields_of(declared)]
    positions = []
    for at, (name, node) in enumerate(zip(found.names, nodes, strict=True)):
        if isinstance(node, Field) and name == _name(node, at, 1, declared):
            continue
        if name in own:
            raise InvalidProgramError(
                f"{where}: the records have a field {name!r}, too: name the fields of the key by "
                "key_names"
            )
        positions.append(at)
    return found, tuple(positions)


def known_key_fields(
    selector: Any, key_type: TypeInformation | None, declared: TypeInformation | None, where: str
) -> KeyFields | None:
    """Return the fields of a stream's keys, None if their type is unknown; see `key_fields`."""
    return _named_key(selector, key_type, declared, None, where)[0]


def _unknown_keys(where: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"{where}: the type of the keys is unknown: give key_by a key_type, or an expression"
    )


def _named_key(
    selector: Any,
    key_type: TypeInformation | None,
    declared: TypeInformation | None,
    names: Sequence[str] | None,
    where: str,
) -> tuple[KeyFields | None, list[Any]]:
    """Return the fields of keys, None if their type is unknown, and the node of each."""
    expression = computed_by(selector)
    node = None if expression is None else expression.node
    if node is None:
        node = _taken_field(bound_function(selector, "get_key"))
        if key_type is None and node is not None:
            expression = computed(Expression(node), where, [declared])
            node = expression.node if expression is not None else node
    if key_type is None and expression is not None:
        key_type = expression.type
    if key_type is None or isinstance(key_type, PickledBytesTypeInfo):
        return None, []
    is_tuple = isinstance(key_type, (RowTypeInfo, TupleTypeInfo))
    types: list[Any] = [key_type]
    nodes: list[Any] = [node]
    if isinstance(key_type, (RowTypeInfo, TupleTypeInfo)):
        types = list(key_type.get_field_types())
        nodes = list(node.items) if isinstance(node, Gather) else [None] * len(types)
    if names is None:
        if isinstance(key_type, RowTypeInfo):
            names = key_type.get_field_names()
        else:
            names = [_name(each, at, len(types), declared) for at, each in enumerate(nodes)]
    if len(names) != len(types):
        raise InvalidProgramError(f"{where}: {len(names)} names for {len(types)} fields of the key")
    return KeyFields(tuple(names), tuple(map(_bounded, types)), is_tuple), nodes


def _taken_field(selector: Any) -> Field | None:
    """Return the field that a function selects as the key; None if it does more."""
    taken = part_of(selector)
    key: Any = field_of(selector) if taken is None else taken.name
    return None if key is None else field(key).node  # type: ignore[return-value]


def _name(node: Any, at: int, count: int, declared: TypeInformation | None) -> str:
    """Return the name of a field of the key."""
    if isinstance(node, Field):
        if isinstance(node.key, str):
            return node.key
        if isinstance(declared, RowTypeInfo | RecordTypeInfo):  # a NamedTuple's are by position
            return declared.get_field_names()[node.key]
        return f"f{node.key}"
    return "key" if count == 1 else f"key{at}"


def result_type(fields: Sequence[tuple[str, TypeInformation]], where: str) -> RowTypeInfo:
    """Return the type of emitted rows.

    Raises:
        InvalidProgramError: Two fields have the same name.
    """
    names = [name for name, _ in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidProgramError(f"{where}: two fields of the result are called {twice[0]!r}")
    return Types.ROW_NAMED(names, [kind for _, kind in fields])
