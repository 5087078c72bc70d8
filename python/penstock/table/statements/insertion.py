"""Insertions: maps the columns of a query to the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules
from penstock.table.functions.logic import cast_to
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.schema.resolved_schema import MetadataColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.plan.nodes import Node
    from penstock.table.schema.resolved_schema import Column, ResolvedSchema


def sink_node(
    name: str,
    query: Node,
    schema: ResolvedSchema,
    sink: Any,
    *,
    columns: Sequence[str] = (),
    partition: Mapping[str, e.Expression] | None = None,
) -> n.Sink:
    """Return the node that writes a query into a table.

    Args:
        name: The full name of the table.
        query: The query.
        schema: The columns of the table.
        sink: The sink of the table.
        columns: The columns that INSERT lists, in the query's order; others are NULL.
        partition: The constant columns of PARTITION.

    Raises:
        ValidationException: The columns of the query and the table do not match.
    """
    written = [column for column in schema.columns if column.is_persisted()]
    constants = dict(partition or {})
    _check_names(name, schema, [*columns, *constants])
    expected = [column for column in written if column.name not in constants]
    if columns:
        by_name = {column.name: column for column in written}
        expected = [by_name[column] for column in columns]
    if len(query.schema) != len(expected):
        raise _mismatch(name, query, expected, "Different number of columns")
    values = dict(zip((c.name for c in expected), n.columns(query), strict=True)) | constants
    expressions = [_converted(name, query, expected, column, values) for column in written]
    names = [column.name for column in written]
    node = n.project(query, expressions, names)
    sink.required = [
        (i, column.name)
        for i, (column, value) in enumerate(zip(written, expressions, strict=True))
        if not column.data_type.is_nullable and value.type.is_nullable
    ]
    return n.Sink(node.schema, node, name, sink, frozenset(sink.kinds))


def _check_names(name: str, schema: ResolvedSchema, names: Sequence[str]) -> None:
    for column in names:
        found = schema.get_column(column)
        if found is None:
            raise ValidationException(
                f"Unknown target column '{column}' of table '{name}', which has "
                f"{', '.join(schema.get_column_names())}"
            )
        if not found.is_persisted():
            kind = "metadata" if isinstance(found, MetadataColumn) else "computed"
            raise ValidationException(
                f"Column '{column}' of table '{name}' is a {kind} column, which cannot be written"
            )
    twice = {column for column in names if names.count(column) > 1}
    if twice:
        raise ValidationException(
            f"Target column '{sorted(twice)[0]}' of table '{name}' is assigned more than once"
        )


def _converted(
    name: str,
    query: Node,
    expected: Sequence[Column],
    column: Column,
    values: Mapping[str, e.Expression],
) -> e.Expression:
    wanted = _plain(column.data_type)
    value = values.get(column.name)
    if value is None:
        if not wanted.is_nullable:
            raise ValidationException(
                f"Column '{column.name}' of table '{name}' is NOT NULL and has no value"
            )
        return e.Literal(wanted, None)
    given = _plain(value.type)
    if given.nullable() == wanted.nullable():
        return value
    if not type_rules.can_cast(given, wanted) or not _is_implicit(given, wanted):
        raise _mismatch(
            name, query, expected, f"Incompatible types for sink column '{column.name}'"
        )
    return cast_to(value, wanted.with_nullability(given.is_nullable))


_WHOLE = (types.TinyIntType, types.SmallIntType, types.IntType, types.BigIntType)
_TIMESTAMPS = (types.TimestampType, types.LocalZonedTimestampType)
#: By the type of a column, the types of values that INSERT converts without CAST.
_IMPLICIT: Final[dict[type[types.DataType], tuple[type[types.DataType], ...]]] = {
    types.CharType: (types.CharType,),
    types.VarCharType: (types.CharType, types.VarCharType),
    types.BinaryType: (types.BinaryType,),
    types.VarBinaryType: (types.BinaryType, types.VarBinaryType),
    types.BooleanType: (types.BooleanType,),
    types.TinyIntType: _WHOLE[:1],
    types.SmallIntType: _WHOLE[:2],
    types.IntType: _WHOLE[:3],
    types.BigIntType: _WHOLE,
    types.FloatType: (*_WHOLE, types.FloatType, types.DecimalType),
    types.DoubleType: (types.NumericType,),
    types.DecimalType: (types.NumericType,),
    types.DateType: (types.DateType, types.TimestampType),
    types.TimeType: (types.TimeType, types.TimestampType),
    types.TimestampType: _TIMESTAMPS,
    types.LocalZonedTimestampType: _TIMESTAMPS,
    types.DayTimeIntervalType: (types.DayTimeIntervalType,),
    types.YearMonthIntervalType: (types.YearMonthIntervalType,),
}


def _is_implicit(given: types.DataType, wanted: types.DataType) -> bool:
    """Return whether INSERT converts without CAST: to a type that has all values."""
    if isinstance(given, types.NullType):
        return True
    sources = _IMPLICIT.get(type(wanted))
    if sources is not None:
        return isinstance(given, sources)
    match given, wanted:
        case types.RowType(), types.RowType():
            pairs = zip(given.field_types(), wanted.field_types(), strict=False)
            return len(given) == len(wanted) and all(_fits(g, w) for g, w in pairs)
        case types.MapType(), types.MapType():
            return _fits(given.key_type, wanted.key_type) and _fits(
                given.value_type, wanted.value_type
            )
        case types.ArrayType(), types.ArrayType():
            return type(given) is type(wanted) and _fits(given.element_type, wanted.element_type)
    return False


def _fits(given: types.DataType, wanted: types.DataType) -> bool:
    return given.nullable() == wanted.nullable() or _is_implicit(given, wanted)


def _plain(data_type: types.DataType) -> types.DataType:
    typed: Any = data_type
    return typed.with_time_attribute(None) if hasattr(typed, "with_time_attribute") else data_type


def _mismatch(
    name: str, query: Node, expected: Sequence[Column], cause: str
) -> ValidationException:
    given = ", ".join(f"{field.name}: {field.type}" for field in query.schema)
    wanted = ", ".join(f"{column.name}: {column.data_type}" for column in expected)
    return ValidationException(
        f"Column types of query result and sink for '{name}' do not match.\n"
        f"Cause: {cause}.\n\nQuery schema: [{given}]\nSink schema:  [{wanted}]"
    )
