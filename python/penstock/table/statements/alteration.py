"""ALTER TABLE: changes of a table's declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.schema.resolution import expression_text
from penstock.table.schema.schema import DeclaredColumn, DeclaredWatermark, Schema
from penstock.table.udf.wrappers import parsed_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.catalog.objects import CatalogBaseTable
    from penstock.table.schema.resolved_schema import Column
    from penstock.table.sql.statements import Alter, ColumnDefinition, CreateTable


_NOT_STORED = (types.DayTimeIntervalType, types.YearMonthIntervalType, types.NullType)


def declared_column(definition: ColumnDefinition) -> DeclaredColumn:
    """Return the declaration of a column of CREATE or ALTER TABLE."""
    key = definition.metadata_key
    if definition.is_metadata and key is None:
        key = definition.name
    return DeclaredColumn(
        definition.name,
        definition.type,
        definition.text if definition.expression is not None else None,
        key if definition.is_metadata else None,
        definition.is_virtual,
        definition.comment,
    )


def declared_schema(statement: CreateTable) -> Schema:
    """Return the declaration of the columns, watermark and key of CREATE TABLE.

    Raises:
        ValidationException: The statement requires that the primary key is enforced.
    """
    if statement.primary_key is not None and statement.is_key_enforced:
        raise ValidationException(
            "Flink doesn't support ENFORCED mode for PRIMARY KEY constraint. ENFORCED/NOT ENFORCED "
            "controls if the constraint checks are performed on the incoming/outgoing data. "
            "penstock does not own the data therefore the only supported mode is the NOT ENFORCED "
            "mode"
        )
    columns = [declared_column(definition) for definition in statement.columns]
    for column in columns:
        if isinstance(column.data_type, _NOT_STORED):
            raise ValidationException(
                f"Column '{column.name}' cannot be of the type {column.data_type}"
            )
    watermarks = [DeclaredWatermark(".".join(w.column), w.text) for w in statement.watermarks]
    key = None
    if statement.primary_key is not None:
        name = statement.key_name or f"PK_{'_'.join(statement.primary_key)}"
        key = name, tuple(statement.primary_key)
    return with_key_not_null(Schema(columns, watermarks, key))


def schema_of_query(schema: Schema, statement: CreateTable, columns: Sequence[Column]) -> Schema:
    """Return the schema of CREATE TABLE … AS SELECT.

    As in Flink, the declared columns that the query lacks come first.

    Args:
        schema: The declared columns, watermark and key.
        statement: The statement.
        columns: The columns of the query.

    Raises:
        ValidationException: The statement names other columns than the query has.
    """
    found = {column.name: DeclaredColumn(column.name, column.data_type) for column in columns}
    names = statement.query_columns or tuple(found)
    if set(names) != set(found) or len(names) != len(found):
        raise ValidationException(
            f"The columns in front of AS SELECT must be those of the query in any order: got "
            f"{', '.join(names)}, the query has {', '.join(found)}"
        )
    declared = {column.name: column for column in schema.columns}
    merged = [column for column in schema.columns if column.name not in found]
    merged += [declared.get(name, found[name]) for name in names]
    return Schema(merged, schema.watermark_specs, schema.primary_key)


def with_key_not_null(schema: Schema) -> Schema:
    """Return a schema of DDL, in which the columns of the primary key are NOT NULL."""
    keys = () if schema.primary_key is None else schema.primary_key[1]
    columns = [
        replace(column, data_type=parsed_type(column.data_type).not_null())
        if column.name in keys and column.data_type is not None
        else column
        for column in schema.columns
    ]
    return Schema(columns, schema.watermark_specs, schema.primary_key)


def altered(table: CatalogBaseTable, statement: Alter) -> CatalogBaseTable:
    """Apply ALTER TABLE to a table, and return the result.

    Raises:
        ValidationException: A column is missing, exists already, or is used by others.
    """
    schema = table.schema
    match statement.action:
        case "SET":
            return replace(table, options={**table.options, **statement.arguments})
        case "RESET":
            if "connector" in statement.arguments:
                raise ValidationException("ALTER TABLE RESET cannot reset the option 'connector'")
            kept = {k: v for k, v in table.options.items() if k not in statement.arguments}
            return replace(table, options=kept)
        case "RENAME COLUMN":
            return replace(table, schema=_renamed(schema, *statement.arguments))
        case "ADD" | "MODIFY":
            is_new = statement.action == "ADD"
            return replace(table, schema=_changed(schema, statement.arguments, is_new=is_new))
        case "DROP":
            parts = [name for name in statement.arguments if name in table.partition_keys]
            if parts:
                raise ValidationException(f"The column `{parts[0]}` is used as a partition key")
            return replace(table, schema=_without(schema, statement.arguments))
        case "DROP WATERMARK":
            if not schema.watermark_specs:
                raise ValidationException("The table has no watermark to drop")
            return replace(table, schema=Schema(schema.columns, (), schema.primary_key))
        case "DROP CONSTRAINT" if schema.primary_key is None or (
            statement.arguments != schema.primary_key[0]
        ):
            known = "none" if schema.primary_key is None else schema.primary_key[0]
            raise ValidationException(
                f"The table has no constraint `{statement.arguments}` to drop: it has {known}"
            )
        case "DROP PRIMARY KEY" | "DROP CONSTRAINT":
            if schema.primary_key is None:
                raise ValidationException("The table has no primary key to drop")
            return replace(table, schema=Schema(schema.columns, schema.watermark_specs, None))
    raise ValidationException(f"ALTER TABLE … {statement.action} is not supported")


def _position(schema: Schema, name: str) -> int:
    for position, column in enumerate(schema.columns):
        if column.name == name:
            return position
    known = ", ".join(column.name for column in schema.columns)
    raise ValidationException(f"The column `{name}` does not exist in the table: it has {known}")


def _changed(schema: Schema, statement: CreateTable, *, is_new: bool) -> Schema:
    columns = list(schema.columns)
    for definition in statement.columns:
        made = declared_column(definition)
        exists = any(column.name == made.name for column in columns)
        if is_new and exists:
            raise ValidationException(
                f"Try to add a column `{made.name}` which already exists in the table"
            )
        at = len(columns)
        if not is_new:
            at = _position(Schema(columns), made.name)
            old = columns.pop(at)
            if made.comment is None:
                made = replace(made, comment=old.comment)
        if made.name in statement.positions:
            before = statement.positions[made.name]
            at = 0 if before is None else _position(Schema(columns), before) + 1
        columns.insert(at, made)
    given = declared_schema(replace(statement, columns=()))
    watermarks: Sequence[Any] = schema.watermark_specs
    if given.watermark_specs:
        if is_new and watermarks:
            raise ValidationException("The table has a watermark: use MODIFY WATERMARK")
        watermarks = given.watermark_specs
    key = schema.primary_key
    if given.primary_key is not None:
        if is_new and key is not None:
            raise ValidationException("The table has a primary key: DROP PRIMARY KEY first")
        key = given.primary_key
    return with_key_not_null(Schema(columns, watermarks, key))


def _users(schema: Schema, name: str) -> list[str]:
    """Return the dependents of a column: computed columns, the watermark and the primary key."""
    quoted = f"`{name}`"
    users = [
        f"the computed column `{column.name}`"
        for column in schema.columns
        if column.is_computed and quoted in expression_text(column.expression)
    ]
    users.extend(
        "the watermark"
        for watermark in schema.watermark_specs
        if watermark.column == name or quoted in expression_text(watermark.expression)
    )
    if schema.primary_key is not None and name in schema.primary_key[1]:
        users.append("the primary key")
    return users


def _without(schema: Schema, names: Sequence[str]) -> Schema:
    for name in names:
        _position(schema, name)
    columns = [column for column in schema.columns if column.name not in names]
    rest = Schema(columns, schema.watermark_specs, schema.primary_key)
    for name in names:
        users = _users(rest, name)
        if users:
            raise ValidationException(f"The column `{name}` is needed by {', '.join(users)}")
    return rest


def _renamed(schema: Schema, old: str, new: str) -> Schema:
    at = _position(schema, old)
    if any(column.name == new for column in schema.columns):
        raise ValidationException(f"The column `{new}` already exists in the table")
    users = [user for user in _users(schema, old) if user != "the primary key"]
    if users:
        raise ValidationException(f"The column `{old}` is needed by {', '.join(users)}")
    columns = list(schema.columns)
    columns[at] = replace(columns[at], name=new)
    key = schema.primary_key
    if key is not None:
        key = key[0], tuple(new if column == old else column for column in key[1])
    return Schema(columns, schema.watermark_specs, key)
