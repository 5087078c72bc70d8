"""Conversions of a table environment's arguments: names, functions and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.catalog.objects import CatalogBaseTable
from penstock.table.exceptions import ValidationException
from penstock.table.planning.planner import schema_of_node
from penstock.table.schema.schema import DeclaredColumn, Schema
from penstock.table.udf.user_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)
from penstock.table.udf.wrappers import UserDefinedFunctionWrapper, udaf, udf, udtaf, udtf

if TYPE_CHECKING:
    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.table_context import PlannedTable
    from penstock.table.table_descriptor import TableDescriptor


def parsed_path(path: str) -> tuple[str, ...]:
    """Split a name into its parts; parts in backquotes may contain dots.

    Raises:
        ValidationException: The text is not a valid name.
    """
    parts, rest = [], path.strip()
    while rest:
        if rest[0] == "`":
            end = rest.find("`", 1)
            if end < 0:
                raise ValidationException(f"Invalid table name: {path!r} has an open quote")
            parts.append(rest[1:end])
            rest = rest[end + 1 :]
        else:
            part, _, _ = rest.partition(".")
            parts.append(part.strip())
            rest = rest[len(part) :]
        if rest and rest[0] != ".":
            raise ValidationException(f"Invalid table name: {path!r}")
        rest = rest[1:]
    if not parts or not all(parts) or len(parts) > 3:
        raise ValidationException(f"Invalid table name: {path!r}")
    return tuple(parts)


def wrapped_function(function: Any) -> UserDefinedFunctionWrapper:
    """Return the wrapper of a function.

    Raises:
        TypeError: The argument is not a function.
    """
    if isinstance(function, UserDefinedFunctionWrapper):
        return function
    makers: tuple[tuple[type, Any], ...] = (
        (AggregateFunction, udaf),
        (TableAggregateFunction, udtaf),
        (TableFunction, udtf),
        (ScalarFunction, udf),
        (AsyncScalarFunction, udf),
    )
    for kind, make in makers:
        if isinstance(function, kind):
            made: UserDefinedFunctionWrapper = make(function)
            return made
    raise TypeError(f"Expected a function of udf, udtf, udaf or udtaf, got {function!r}")


def described_table(
    descriptor: TableDescriptor, default: ResolvedSchema | None = None
) -> CatalogBaseTable:
    """Return the table of a descriptor.

    Raises:
        ValidationException: The descriptor has no schema.
    """
    schema = descriptor.get_schema()
    if schema is None and default is not None:
        columns = [DeclaredColumn(c.name, c.data_type) for c in default.columns]
        schema = Schema(columns)
    if schema is None:
        raise ValidationException("Schema missing in descriptor: call schema(...)")
    return CatalogBaseTable.create_table(
        schema,
        descriptor.get_partition_keys(),
        descriptor.get_options(),
        descriptor.get_comment(),
    )


def view_of(table: PlannedTable) -> CatalogBaseTable:
    """Return a view of a program's table."""
    columns = [
        DeclaredColumn(column.name, column.data_type)
        for column in schema_of_node(table.plan_node).columns
    ]
    return CatalogBaseTable(Schema(columns), plan=table.plan_node)
