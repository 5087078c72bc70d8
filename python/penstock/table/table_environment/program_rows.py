"""Tables of rows from the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.connectors.batches import record_batch
from penstock.table.connectors.collection import CollectionSource
from penstock.table.exceptions import ValidationException
from penstock.table.expression.expression import Expression
from penstock.table.options.time_zones import time_zone
from penstock.table.plan import nodes as n
from penstock.table.plan.nodes import INSERT
from penstock.table.plan.schema import Field, Schema
from penstock.table.table.table import Table
from penstock.table.table_environment.elements import infer_row_type, verifier
from penstock.table.types import DataType, RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.table_context import TableContext


def rows_table(
    environment: TableContext,
    elements: Sequence[Any],
    schema: DataType | Sequence[str] | None,
    *,
    verify_schema: bool,
) -> Table:
    """Return a table of rows.

    Raises:
        TypeError: A value has another type, or SQL has no type for it.
        ValueError: A value does not fit, or a type cannot be inferred.
    """
    are_expressions = [isinstance(element, Expression) for element in elements]
    if any(are_expressions):
        if not all(are_expressions):
            raise ValueError("from_elements takes expressions or values, not a mix of them")
        return expressions_table(environment, elements, schema)
    rows: list[Any]
    if isinstance(schema, RowType):
        row_type = schema
        verify = verifier(row_type, "row") if verify_schema else None
        rows = list(elements)
        for row in rows if verify is not None else ():
            assert verify is not None
            verify(row)
    elif isinstance(schema, DataType):
        verify = verifier(schema, "field value") if verify_schema else None
        for element in elements if verify is not None else ():
            assert verify is not None
            verify(element)
        row_type = RowType([RowField("value", schema)])
        rows = [(element,) for element in elements]
    else:
        if schema is not None and not isinstance(schema, (list, tuple)):
            raise TypeError(
                f"schema must be a data type or a list of names, got {type(schema).__name__}"
            )
        row_type = infer_row_type(elements, None if schema is None else list(schema))
        rows = list(elements)
    values = [_values(row, row_type) for row in rows]
    localized = _localized(values, row_type, environment)
    try:
        batch = record_batch([(INSERT, row) for row in localized], row_type)
    except (TypeError, ValueError) as error:
        if verify_schema:
            raise
        return _failing_table(environment, row_type, error)
    return batches_table(environment, row_type, [batch])


def _failing_table(environment: TableContext, row_type: RowType, error: Exception) -> Table:
    """Return a table of unchecked rows that do not fit: its queries fail."""
    from penstock.table.planning.planner import UnreadableSource
    from penstock.table.schema.resolved_schema import ResolvedSchema

    schema = Schema(tuple(Field(field.name, field.data_type) for field in row_type))
    source = UnreadableSource(error, ResolvedSchema())
    return Table(n.Scan(schema, environment.catalogs.unnamed_path(), source), environment)


def _values(row: Any, row_type: RowType) -> list[Any]:
    from penstock.table.types.arrow_types import field_value

    return [field_value(row, i, field.name) for i, field in enumerate(row_type)]


def _localized(
    rows: list[list[Any]], row_type: RowType, environment: TableContext
) -> list[list[Any]]:
    """Convert datetimes without a zone in TIMESTAMP_LTZ columns to the session's zone."""
    from penstock.table.types.logical_types import LocalZonedTimestampType

    places = [i for i, f in enumerate(row_type) if isinstance(f.data_type, LocalZonedTimestampType)]
    if not places:
        return rows
    zone = time_zone(environment.get_config().get_local_timezone())
    for row in rows:
        for i in places:
            if row[i] is not None and row[i].tzinfo is None:
                row[i] = row[i].replace(tzinfo=zone)
    return rows


def batches_table(environment: TableContext, row_type: RowType, batches: Sequence[Any]) -> Table:
    """Return a table of record batches.

    Raises:
        ValidationException: Two columns have one name.
    """
    names = row_type.field_names()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValidationException(f"Field names must be unique. Found duplicates: {twice}")
    schema = Schema(tuple(Field(field.name, field.data_type) for field in row_type))
    name = environment.catalogs.unnamed_path()
    return Table(n.Scan(schema, name, CollectionSource(batches)), environment)


def expressions_table(environment: TableContext, elements: Sequence[Any], schema: Any) -> Table:
    """Return a table whose rows are expressions: ``row(1, "a")``, or single values."""
    from penstock.table.functions.logic import cast_to
    from penstock.table.plan.binder import Binder
    from penstock.table.plan.expressions import UnresolvedCall
    from penstock.table.plan.scopes import Scope
    from penstock.table.plan.values import values_node

    binder = Binder(environment.planner.context())
    rows = []
    for element in elements:
        tree = element.tree
        is_row = isinstance(tree, UnresolvedCall) and tree.function == "ROW"
        parts = tree.arguments if is_row else (tree,)
        rows.append([environment.resolve(binder, part, Scope()) for part in parts])
    if isinstance(schema, RowType):
        kinds, names = schema.field_types(), schema.field_names()
        rows = [
            [cast_to(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows
        ]
    else:
        names = list(schema or (f"f{i}" for i in range(len(rows[0]))))
    return Table(values_node(rows, names), environment)
