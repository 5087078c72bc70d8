"""Arrays, maps and rows: constructors, access, and the functions of arrays and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.logic import cast_to, unified
from penstock.table.functions.registry import define, rowwise
from penstock.table.plan.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType

INT = types.IntType()
BOOLEAN = types.BooleanType()


# Constructors -------------------------------------------------------------------------------------


def _array(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    if not arguments:
        raise ValidationException("Require at least 1 argument: write CAST(NULL AS ARRAY<…>)")
    kind, cast = unified(arguments, "ARRAY")
    return Call(types.ArrayType(kind, nullable=False), "ARRAY", tuple(cast))


def _map(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    if len(arguments) % 2:
        raise ValidationException("MAP takes pairs of keys and values")
    if not arguments:
        raise ValidationException("Map requires at least 1 argument")
    key, keys = unified(arguments[::2], "MAP")
    value, values = unified(arguments[1::2], "MAP")
    pairs = [x for pair in zip(keys, values, strict=True) for x in pair]
    return Call(types.MapType(key, value, nullable=False), "MAP", tuple(pairs))


def _row(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    fields = [types.RowField(f"EXPR${i}", a.type) for i, a in enumerate(arguments)]
    return Call(types.RowType(fields, nullable=False), "ROW", tuple(arguments))


def _make_map(*values: Any) -> dict[Any, Any]:
    return dict(zip(map(hashable, values[::2]), values[1::2], strict=True))


def hashable(value: Any) -> Any:
    """Return a hashable form of a map's key."""
    return tuple(value.items()) if isinstance(value, dict) else value


define("ARRAY", "any*", INT, rowwise(lambda *v: list(v), takes_nulls=True), bind=_array)
define("MAP", "any*", INT, rowwise(_make_map, takes_nulls=True), bind=_map)
define("ROW", "any*", INT, rowwise(lambda *v: tuple(v), takes_nulls=True), bind=_row)


# Access -------------------------------------------------------------------------------------------


def _item(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    value, index = arguments
    kind = value.type
    if isinstance(kind, types.MapType):
        if rules.is_text(kind.key_type) != rules.is_text(index.type) and not isinstance(
            index.type, types.NullType
        ):
            raise ValidationException(
                f"The key of a value of a {kind} is of type {kind.key_type}, got <{index.type}>"
            )
        return Call(kind.value_type.nullable(), "ITEM", (value, cast_to(index, kind.key_type)))
    if isinstance(kind, types.RowType):
        if not isinstance(index, Literal) or not isinstance(index.value, int | str):
            raise ValidationException("A field of a row is given by a constant")
        name = index.value
        if isinstance(name, int):
            name = kind.field_names()[name - 1]
        return _get([value, Literal(rules.string(nullable=False), name)], ())
    if isinstance(kind, types.ArrayType):
        if not rules.is_integer(index.type):
            raise ValidationException(f"The index of an array is an INT, got <{index.type}>")
        if isinstance(index, Literal) and index.value is not None and index.value < 1:
            raise ValidationException(
                f"Array element access needs an index starting at 1 but was {index.value}."
            )
        return Call(kind.element_type.nullable(), "ITEM", (value, index))
    raise ValidationException(f"<{kind}> has no elements")


def _get(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    value, name = arguments
    kind = value.type
    if not isinstance(kind, types.RowType) or not isinstance(name, Literal):
        raise ValidationException(f"'{value}' is of type {kind} and has no fields")
    names = kind.field_names()
    if isinstance(name.value, int):
        position = name.value
    elif name.value in names:
        position = names.index(name.value)
    else:
        raise ValidationException(
            f"Column '{name.value}' not found: the row has the fields {', '.join(names)}"
        )
    if not 0 <= position < len(names):
        raise ValidationException(f"The row has no field {position}")
    nullable = kind.is_nullable or kind.fields[position].data_type.is_nullable
    field = kind.fields[position].data_type.with_nullability(nullable)
    return Call(field, "GET", (value,), (position,))


def _get_kernel(arguments: list[Any], rows: int, call: Call) -> Any:
    del rows
    import pyarrow.compute as pc

    return pc.struct_field(arguments[0], [call.options[0]])


def _item_kernel(arguments: list[Any], rows: int, call: Call) -> Any:
    if isinstance(call.arguments[0].type, types.MapType):
        return _map_item(arguments, rows, call)
    return _array_item(arguments, rows, call)


_map_item = rowwise(lambda value, key: value.get(key))
_array_item = rowwise(lambda v, i: v[i - 1] if 0 < i <= len(v) else None)

define("ITEM", "any any", INT, _item_kernel, bind=_item)
define("AT", "any any", INT, _item_kernel, bind=_item)
define("GET", "any any", INT, _get_kernel, bind=_get)
define("CARDINALITY", "collection", INT, rowwise(len))


def _element_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    kind: Any = arguments[0].type
    nullable = kind.is_nullable or kind.element_type.is_nullable
    return kind.element_type.with_nullability(nullable)  # type: ignore[no-any-return]


def _element(value: list[Any]) -> Any:
    if len(value) > 1:
        raise ValueError("ELEMENT takes an array with one element at most")
    return value[0] if value else None


define("ELEMENT", "array", _element_type, rowwise(_element))


# Arrays -------------------------------------------------------------------------------------------


def _with_element(
    name: str, *, is_array: bool, result: Callable[[DataType, bool], DataType]
) -> Any:
    """Return the binder of an array and a value (or array) with a common element type."""

    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        array, other = arguments[:2]
        kind = array.type
        assert isinstance(kind, types.ArrayType)
        other_type = other.type
        if is_array:
            if not isinstance(other_type, types.ArrayType):
                raise ValidationException(f"{name} takes arrays, got <{other.type}>")
            other_type = other_type.element_type
        element = rules.common_type([kind.element_type, other_type])
        if element is None:
            raise ValidationException(
                f"The elements of {name} have no common type: {kind.element_type}, {other_type}"
            )
        wanted = types.ArrayType(element)
        array = cast_to(array, wanted)
        other = cast_to(other, wanted if is_array else element)
        nullable = array.type.is_nullable or (is_array and other.type.is_nullable)
        return Call(result(element, nullable), name, (array, other, *arguments[2:]))

    return bind


def _as_array(element: DataType, nullable: bool) -> DataType:
    return types.ArrayType(element, nullable)


def _unique(values: list[Any]) -> list[Any]:
    made: list[Any] = []
    for value in values:
        if value not in made:
            made.append(value)
    return made


def _null_first(function: Callable[..., Any]) -> Any:
    """Return a kernel whose result is NULL if the first argument is NULL."""
    return rowwise(
        lambda first, *rest: None if first is None else function(first, *rest), takes_nulls=True
    )


define(
    "ARRAY_APPEND", "array any", INT, _null_first(lambda a, v: [*a, v]),
    bind=_with_element("ARRAY_APPEND", is_array=False, result=_as_array),
)  # fmt: skip
define(
    "ARRAY_PREPEND", "array any", INT, _null_first(lambda a, v: [v, *a]),
    bind=_with_element("ARRAY_PREPEND", is_array=False, result=_as_array),
)  # fmt: skip
define(
    "ARRAY_REMOVE", "array any", INT, _null_first(lambda a, v: [x for x in a if x != v]),
    bind=_with_element("ARRAY_REMOVE", is_array=False, result=_as_array),
)  # fmt: skip
define(
    "ARRAY_CONTAINS", "array any", INT, _null_first(lambda a, v: v in a),
    bind=_with_element(
        "ARRAY_CONTAINS", is_array=False, result=lambda _, n: types.BooleanType(nullable=n)
    ),
)  # fmt: skip
define(
    "ARRAY_POSITION", "array any", INT,
    rowwise(lambda a, v: a.index(v) + 1 if v in a else 0),
    bind=_with_element(
        "ARRAY_POSITION", is_array=False, result=lambda _, n: types.IntType(nullable=n)
    ),
)  # fmt: skip
define(
    "ARRAY_UNION", "array array", INT, rowwise(lambda a, b: _unique([*a, *b])),
    bind=_with_element("ARRAY_UNION", is_array=True, result=_as_array),
)  # fmt: skip
define(
    "ARRAY_INTERSECT", "array array", INT, rowwise(lambda a, b: _unique([x for x in a if x in b])),
    bind=_with_element("ARRAY_INTERSECT", is_array=True, result=_as_array),
)  # fmt: skip
define(
    "ARRAY_EXCEPT", "array array", INT,
    rowwise(lambda a, b: _unique([x for x in a if x not in b])),
    bind=_with_element("ARRAY_EXCEPT", is_array=True, result=_as_array),
)  # fmt: skip


def _concat_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind, cast = unified(arguments, "ARRAY_CONCAT")
    return Call(kind, "ARRAY_CONCAT", tuple(cast))


define(
    "ARRAY_CONCAT", "array array*", INT, rowwise(lambda *a: [x for each in a for x in each]),
    bind=_concat_bind,
)  # fmt: skip
define("ARRAY_DISTINCT", "array", "first", rowwise(_unique))
define("ARRAY_REVERSE", "array", "first", rowwise(lambda a: a[::-1]))


def _slice(array: list[Any], start: int, end: int | None = None) -> list[Any]:
    size = len(array)
    first = start - 1 if start > 0 else (0 if start == 0 else size + start)
    last = size if end is None else (end if end >= 0 else size + end + 1)
    if end == 0:
        last = 1 if start == 0 else 0
    return array[max(first, 0) : max(last, 0)]


define("ARRAY_SLICE", "array int int?", "first", rowwise(_slice))


def _sorted(array: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    first = ascending if nulls_first is None else nulls_first
    present = sorted((v for v in array if v is not None), reverse=not ascending)
    nulls = [None] * (len(array) - len(present))
    return nulls + present if first else present + nulls


define("ARRAY_SORT", "array bool? bool?", "first", rowwise(_sorted))


def _extreme_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    kind: Any = arguments[0].type
    return kind.element_type.nullable()  # type: ignore[no-any-return]


define("ARRAY_MAX", "array", _extreme_type, rowwise(
    lambda a: max((v for v in a if v is not None), default=None)))  # fmt: skip
define("ARRAY_MIN", "array", _extreme_type, rowwise(
    lambda a: min((v for v in a if v is not None), default=None)))  # fmt: skip


def _array_join(array: list[Any], separator: str, missing: str | None = None) -> str:
    texts = (missing if v is None else v for v in array)
    return separator.join(text for text in texts if text is not None)


def _array_join_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind: Any = arguments[0].type
    is_null = isinstance(kind, types.NullType)
    if not is_null and not rules.is_text(kind.element_type):
        raise ValidationException(f"ARRAY_JOIN joins texts, got <{kind}>; use CAST")
    nullable = is_null or any(a.type.is_nullable for a in arguments)
    return Call(rules.string(nullable), "ARRAY_JOIN", tuple(arguments))


define(
    "ARRAY_JOIN", "array text text?", rules.string(), rowwise(_array_join), bind=_array_join_bind
)


# Maps ---------------------------------------------------------------------------------------------


def _map_parts(which: str) -> Callable[..., DataType]:
    def result(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
        kind: Any = arguments[0].type
        element = kind.key_type if which == "keys" else kind.value_type
        return types.ArrayType(element, kind.is_nullable)

    return result


def _entries_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    kind: Any = arguments[0].type
    row = types.RowType(
        [types.RowField("key", kind.key_type), types.RowField("value", kind.value_type)],
        nullable=False,
    )
    return types.ArrayType(row, kind.is_nullable)


def _from_arrays_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    keys: Any = arguments[0].type
    values: Any = arguments[1].type
    nullable = keys.is_nullable or values.is_nullable
    return types.MapType(keys.element_type, values.element_type, nullable)


def _from_arrays(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    if len(keys) != len(values):
        raise ValueError(
            "Invalid function MAP_FROM_ARRAYS call: the length of the keys array "
            f"{len(keys)} is not equal to the length of the values array {len(values)}"
        )
    return dict(zip(keys, values, strict=True))


def _map_union(*maps: dict[Any, Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for each in maps:
        made.update(each)
    return made


def _map_union_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind, cast = unified(arguments, "MAP_UNION")
    return Call(kind, "MAP_UNION", tuple(cast))


define("MAP_KEYS", "map", _map_parts("keys"), rowwise(list))
define("MAP_VALUES", "map", _map_parts("values"), rowwise(lambda m: list(m.values())))
define("MAP_ENTRIES", "map", _entries_type, rowwise(lambda m: list(m.items())))
define("MAP_FROM_ARRAYS", "array array", _from_arrays_type, rowwise(_from_arrays))
define("MAP_UNION", "map map*", INT, rowwise(_map_union), bind=_map_union_bind)
