"""Type checking of expressions: resolves fields, and rejects impossible computations."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.common import typeinfo
from penstock.common.calls.names import nearest_hint
from penstock.common.record_types import EnumTypeInfo
from penstock.common.typeinfo import BasicType, TypeInformation, Types
from penstock.errors import InvalidProgramError
from penstock.expressions import nodes as n
from penstock.expressions.pure_functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTEGERS: Final = frozenset(
    {BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT}
)
_KINDS: Final = {
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
    BasicType.BOOLEAN: "boolean",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "float",
    BasicType.BIG_DEC: "decimal",
    **dict.fromkeys(_INTEGERS, "integer"),
}
_LITERALS: Final = {
    str: Types.STRING(),
    bool: Types.BOOLEAN(),
    int: Types.BIG_INT(),
    float: Types.DOUBLE(),
    Decimal: Types.BIG_DEC(),
    datetime.datetime: Types.SQL_TIMESTAMP(),
    datetime.date: Types.SQL_DATE(),
    datetime.time: Types.SQL_TIME(),
}

#: The types that a function or operator accepts for each kind of operand.
_MEMBERS: Final = {
    "number": ("integer", "float", "decimal"),
    "integer or null": ("integer", "null"),
    "temporal": ("date", "time", "timestamp"),
}

#: Kinds of values that equal no value of another kind, except that numbers equal numbers.
_COMPARED: Final = frozenset(
    {
        "string", "integer", "float", "decimal",
        "date", "time", "timestamp", "instant", "duration", "tuple",
    }
)  # fmt: skip

#: Milliseconds in each part of a timestamp in ms, and the number of parts in the next one.
_PARTS_OF_MILLIS: Final = {
    "hour": (3_600_000, 24),
    "minute": (60_000, 60),
    "second": (1000, 60),
}
_OF_DAYS: Final = ("date", "timestamp")
_OF_DATES: Final = ("year", "month", "day", "weekday")

#: By operator, the kinds of times and timedeltas that Python computes with.
_OF_TIMES: Final = {
    "+": (
        ("timestamp", "duration"), ("duration", "timestamp"),
        ("date", "duration"), ("duration", "date"), ("duration", "duration"),
    ),
    "-": (
        ("timestamp", "duration"), ("date", "duration"),
        ("timestamp", "timestamp"), ("date", "date"), ("duration", "duration"),
    ),
    "*": (
        ("duration", "integer"), ("integer", "duration"),
        ("duration", "float"), ("float", "duration"),
    ),
    "/": (("duration", "integer"), ("duration", "float"), ("duration", "duration")),
    "//": (("duration", "integer"), ("duration", "duration")),
}  # fmt: skip

#: A part of an expression in executable form, and its type; None if that is unknown.
Typed = tuple[n.Node, TypeInformation | None]


def kind_of(type_info: TypeInformation | None) -> str:
    """Return the kind of a type's values; ``any`` if it is unknown."""
    match type_info:
        case typeinfo.RecordTypeInfo():
            return "map" if type_info.is_dictionary else "record"
        case None | typeinfo.PickledBytesTypeInfo():
            return "any"
        case typeinfo.InstantTypeInfo():
            return "instant"
        case typeinfo.BasicTypeInfo():
            return _KINDS[type_info.basic_type]
        case typeinfo.DateTypeInfo():
            return "date"
        case typeinfo.TimeTypeInfo():
            return "time"
        case typeinfo.TimestampTypeInfo():
            return "timestamp"
        case typeinfo.LocalTimeTypeInfo():
            return ("date", "time", "timestamp")[type_info.time_type.value]
        case typeinfo.TupleTypeInfo():
            return "tuple"
        case typeinfo.RowTypeInfo():
            return "row"
        case typeinfo.MapTypeInfo():
            return "map"
    return "list" if hasattr(type_info, "element_type") else "other"


def check(node: n.Node, types: Sequence[TypeInformation | None]) -> Typed:
    """Resolve an expression's fields; return the expression and its type.

    Args:
        node: The expression as written.
        types: The types of the arguments; None for unknown ones.

    Raises:
        InvalidProgramError: It cannot be computed from values of these types.
    """
    return _Checker(types).typed(node)


class _Checker:
    """Checks an expression from its leaves up."""

    def __init__(self, types: Sequence[TypeInformation | None]) -> None:
        self._types = types

    def typed(self, node: n.Node) -> Typed:
        match node:
            case n.Argument():
                return self._argument(node)
            case n.Field():
                return self._field(node)
            case n.Literal():
                return node, _LITERALS.get(type(node.value))
            case n.Binary():
                return self._binary(node)
            case n.Negative():
                operand, found = self._of_kind(node.operand, "number", node)
                return n.Negative(operand), _widened(found)
            case n.Logical():
                left, _ = self._of_kind(node.left, "boolean", node)
                right, _ = self._of_kind(node.right, "boolean", node)
                return n.Logical(node.operator, left, right), Types.BOOLEAN()
            case n.Not():
                operand, _ = self._of_kind(node.operand, "boolean", node)
                return n.Not(operand), Types.BOOLEAN()
            case n.IsNull() | n.IsIn():
                operand, found = self.typed(node.operand)
                for value in node.values if isinstance(node, n.IsIn) else ():
                    _check_member(node, found, n.Literal(value))
                return replace(node, operand=operand), Types.BOOLEAN()
            case n.When():
                return self._when(node)
            case n.Coalesce():
                typed = [self.typed(item) for item in node.items]
                return n.Coalesce(_nodes(typed)), _common([found for _, found in typed])
            case n.Gather():
                return self._gathered(node)
            case n.MakeRow():
                typed = [self.typed(item) for item in node.items]
                types = [found for _, found in typed if found is not None]
                row = Types.ROW_NAMED(list(node.names), types) if len(types) == len(typed) else None
                return n.MakeRow(node.names, _nodes(typed)), row
            case n.Call():
                return self._call(node)
        raise TypeError(f"{type(node).__name__} cannot be part of an expression")

    def _argument(self, node: n.Argument) -> Typed:
        if node.index >= len(self._types):
            raise InvalidProgramError(
                f"{node} does not exist here: the number of arguments is {len(self._types)}; "
                "element is the first one, argument(1) the second one"
            )
        return node, self._types[node.index]

    def _field(self, node: n.Field) -> Typed:
        container, found = self.typed(node.container)
        key, kind = node.key, kind_of(found)
        element: TypeInformation | None = None
        position = None
        record_class = None
        if kind == "any":
            pass
        elif isinstance(found, typeinfo.RecordTypeInfo):
            position, element = _member(node, found)
            if found.is_tuple:
                key = position
            elif not found.is_dictionary:
                record_class = found.record_class
        elif isinstance(found, typeinfo.RowTypeInfo | typeinfo.TupleTypeInfo):
            position, element = _member(node, found)
            key = position if kind == "tuple" else key
        elif isinstance(found, typeinfo.MapTypeInfo):
            element = found.value_type
        elif kind == "list" and isinstance(key, int):
            element = getattr(found, "element_type", None)
        else:
            raise InvalidProgramError(
                f"{node} takes a field of {node.container}, which is {found} and has none"
                + (" of a name" if kind == "list" else "")
            )
        if node.declared is not None:
            if element is not None and element != node.declared:
                raise InvalidProgramError(f"{node} is {element}, not {node.declared}")
            element = node.declared
        row_position = position if kind == "row" and isinstance(key, str) else None
        return n.Field(container, key, node.declared, row_position, record_class), element

    def _binary(self, node: n.Binary) -> Typed:
        left, one = self.typed(node.left)
        right, other = self.typed(node.right)
        typed = n.Binary(node.operator, left, right)
        kinds = _kind_of_operand(left, one), _kind_of_operand(right, other)
        if node.operator in ("==", "!="):
            for found, against in ((one, right), (other, left)):
                _check_member(node, found, against)
            if isinstance(one, EnumTypeInfo) or isinstance(other, EnumTypeInfo):
                return typed, Types.BOOLEAN()
        if "any" in kinds:
            return typed, None
        if node.operator in ("==", "!="):
            return typed, Types.BOOLEAN()
        if node.operator in ("<", "<=", ">", ">="):
            if kinds[0] != kinds[1] and not _are_numbers(kinds):
                what = f"{_shown(kinds[0], one)} with {_shown(kinds[1], other)}"
                raise _cannot(node, f"compares {what}, which have no order")
            return typed, Types.BOOLEAN()
        if node.operator == "+" and kinds == ("string", "string"):
            return typed, Types.STRING()
        if kinds in _OF_TIMES.get(node.operator, ()):
            return typed, _type_of_time(kinds, (one, other))
        if not _are_numbers(kinds):
            hint = ""
            if node.operator == "+" and "string" in kinds:
                hint = ": convert the other one to a text by cast(Types.STRING())"
            what = f"{_shown(kinds[0], one)} and {_shown(kinds[1], other)}"
            raise _cannot(node, f"computes with {what}, which are not numbers{hint}")
        if set(kinds) == {"decimal", "float"}:
            raise _cannot(node, "mixes decimals with floats, which Python does not: cast one")
        return typed, _arithmetic_type(node.operator, kinds)

    def _when(self, node: n.When) -> Typed:
        branches, types = [], []
        for condition, value in node.branches:
            checked, _ = self._of_kind(condition, "boolean", node)
            result, found = self.typed(value)
            branches.append((checked, result))
            types.append(found)
        otherwise, found = self.typed(node.otherwise)
        if otherwise != n.Literal(None):
            types.append(found)
        return n.When(tuple(branches), otherwise), _common(types)

    def _gathered(self, node: n.Gather) -> Typed:
        typed = [self.typed(item) for item in node.items]
        types = [found for _, found in typed]
        gathered = n.Gather(node.kind, _nodes(typed))
        if node.kind == "list":
            element = _common(types)
            return gathered, None if element is None else Types.LIST(element)
        known = [found for found in types if found is not None]
        return gathered, Types.TUPLE(known) if len(known) == len(types) else None

    def _call(self, node: n.Call) -> Typed:
        space, _, name = node.function.partition(".")
        if space == "dt":
            return self._time_part(node, name)
        function = FUNCTIONS[node.function]
        typed = []
        for i, operand in enumerate(node.operands):
            wanted = function.takes[min(i, len(function.takes) - 1)]
            typed.append(self._of_kind(operand, wanted, node))
        gives = function.gives
        if node.function in ("abs", "round"):
            gives = _widened(typed[0][1])
            if node.function == "round" and len(typed) == 1 and gives is not None:
                gives = Types.BIG_INT()
        elif node.function in ("least", "greatest"):
            gives = _common([found for _, found in typed])
        return n.Call(node.function, _nodes(typed)), gives

    def _time_part(self, node: n.Call, name: str) -> Typed:
        operand, found = self.typed(node.operands[0])
        kind = kind_of(found)
        if kind == "integer":
            return _of_millis(node, operand, name)
        if kind == "any":
            raise _cannot(
                node,
                f"must know whether {node.operands[0]} is a timestamp in ms or a datetime: give "
                "the stream a type, or say field(name, Types.LONG())",
            )
        wanted = ("timestamp", "date") if name in _OF_DATES else ("timestamp", "time")
        if kind not in wanted or name == "floor":
            raise _cannot(node, f"has no {name} in {found}")
        if name == "millisecond":
            micros = n.Call("dt.microsecond", (operand,))
            return n.Binary("//", micros, n.Literal(1000)), Types.INT()
        return n.Call(node.function, (operand,)), Types.INT()

    def _of_kind(self, operand: n.Node, wanted: str, whole: n.Node) -> Typed:
        checked, found = self.typed(operand)
        kind = "null" if operand == n.Literal(None) else kind_of(found)
        if wanted != "any" and kind not in ("any", *_MEMBERS.get(wanted, (wanted,))):
            article = "an" if wanted[0] in "ai" else "a"
            what = "a condition" if wanted == "boolean" else f"{article} {wanted}"
            raise _cannot(whole, f"takes {what}, and {operand} is {found}")
        return checked, found


def _of_millis(node: n.Call, operand: n.Node, name: str) -> Typed:
    """Return a part of a timestamp in ms since the epoch, in UTC."""
    if name in _PARTS_OF_MILLIS:
        size, count = _PARTS_OF_MILLIS[name]
        units = n.Binary("//", operand, n.Literal(size))
        return n.Binary("%", units, n.Literal(count)), Types.INT()
    if name == "millisecond":
        return n.Binary("%", operand, n.Literal(1000)), Types.INT()
    if name == "microsecond":
        millis = n.Binary("%", operand, n.Literal(1000))
        return n.Binary("*", millis, n.Literal(1000)), Types.INT()
    if name == "weekday":
        # The epoch began on a Thursday.
        days = n.Binary("//", operand, n.Literal(86_400_000))
        since_monday = n.Binary("%", n.Binary("+", days, n.Literal(3)), n.Literal(7))
        return n.Binary("+", since_monday, n.Literal(1)), Types.INT()
    if name == "floor":
        size_ms = node.operands[1]
        return n.Binary("*", n.Binary("//", operand, size_ms), size_ms), Types.BIG_INT()
    return n.Call(f"millis.{name}", (operand,)), Types.INT()


def _member(
    node: n.Field, found: typeinfo.RowTypeInfo | typeinfo.TupleTypeInfo | typeinfo.RecordTypeInfo
) -> tuple[int, TypeInformation]:
    """Return the position of a field in a row, tuple or record, and its type."""
    types = found.get_field_types()
    if isinstance(found, typeinfo.TupleTypeInfo):
        names = [f"f{i}" for i in range(len(types))]
    else:
        names = found.get_field_names()
    key = node.key
    has_positions = not isinstance(found, typeinfo.RecordTypeInfo) or found.is_tuple
    if isinstance(key, int) and has_positions and 0 <= key < len(types):
        return key, types[key]
    if key in names:
        return names.index(str(key)), types[names.index(str(key))]
    hint = nearest_hint(key, names)
    first, *rest = str(key).split(".")
    if rest and first in names:
        hint = f"; a field of a field is {n.Field(node.container, first)}" + "".join(
            f".field({name!r})" for name in rest
        )
    raise InvalidProgramError(f"{node.container} is {found}, which has no field {key!r}{hint}")


def _check_member(node: n.Node, found: TypeInformation | None, against: n.Node) -> None:
    """Refuse a comparison with a constant that no value equals."""
    if not isinstance(against, n.Literal) or against.value is None:
        return
    value: Any = against.value
    kinds = kind_of(found), _kind_of_operand(against, _LITERALS.get(type(value)))
    if _are_never_equal(kinds):
        raise _cannot(node, f"compares {found} with {value!r}, which it never is")
    written: str | None = None
    if isinstance(found, EnumTypeInfo):
        enum_class: Any = found.enum_class
        members: list[Any] = list(enum_class.__members__.values())
        # The members of an IntEnum equal numbers, those of a StrEnum texts; a union of members of a
        # Flag is none of them.
        if not isinstance(value, enum_class) and not any(member == value for member in members):
            named = (member for member in members if value in (member.value, member.name))
            written = str(next(named, members[0]))
    elif isinstance(value, Enum) and value != value.value and kind_of(found) != "any":
        written = repr(value.value)
    if written is not None:
        raise _cannot(node, f"compares {found} with {value!r}, which it never is: write {written}")


def never_equal(one: TypeInformation | None, other: TypeInformation | None) -> bool:
    """Return whether no value of one type equals a value of another type."""
    kinds = kind_of(one), kind_of(other)
    if isinstance(one, typeinfo.TupleTypeInfo) and isinstance(other, typeinfo.TupleTypeInfo):
        types = one.get_field_types(), other.get_field_types()
        return len(types[0]) != len(types[1]) or any(map(never_equal, *types))
    return _are_never_equal(kinds)


def _are_never_equal(kinds: Sequence[str]) -> bool:
    return kinds[0] != kinds[1] and _COMPARED.issuperset(kinds) and not _are_numbers(kinds)


def _kind_of_operand(operand: n.Node, found: TypeInformation | None) -> str:
    """Return the kind of an operand's values; no type describes timedeltas."""
    is_duration = isinstance(operand, n.Literal) and isinstance(operand.value, datetime.timedelta)
    return "duration" if is_duration else kind_of(found)


def _shown(kind: str, found: TypeInformation | None) -> str:
    return "a timedelta" if kind == "duration" else str(found)


def _type_of_time(
    kinds: Sequence[str], types: Sequence[TypeInformation | None]
) -> TypeInformation | None:
    """Return the type of a computed time; None for a timedelta and a ratio of timedeltas."""
    if kinds[0] == kinds[1]:
        return None
    times = (found for kind, found in zip(kinds, types, strict=True) if kind in _OF_DAYS)
    return next(times, None)


def _are_numbers(kinds: Sequence[str]) -> bool:
    return all(kind in _MEMBERS["number"] for kind in kinds)


def _arithmetic_type(operator: str, kinds: tuple[str, str]) -> TypeInformation | None:
    if "float" in kinds:
        # A negative number to the power of a fraction is complex.
        return None if operator == "**" else Types.DOUBLE()
    if "decimal" in kinds:
        return Types.BIG_DEC()
    if operator == "/":
        return Types.DOUBLE()
    return None if operator == "**" else Types.BIG_INT()


def _widened(found: TypeInformation | None) -> TypeInformation | None:
    """Return the type of a computed number of the same kind."""
    wide: dict[str, Any] = {"integer": Types.BIG_INT(), "float": Types.DOUBLE()}
    return wide.get(kind_of(found), found)


def _common(types: Sequence[TypeInformation | None]) -> TypeInformation | None:
    """Return the common type of values that each have one of some types."""
    first = types[0] if types else None
    if first is None or all(found == first for found in types):
        return first
    kinds = {kind_of(found) for found in types}
    return Types.BIG_INT() if kinds == {"integer"} else None


def _nodes(typed: Sequence[Typed]) -> tuple[n.Node, ...]:
    return tuple(node for node, _ in typed)


def _cannot(node: n.Node, why: str) -> InvalidProgramError:
    return InvalidProgramError(f"{node} {why}")
