"""Definitions of tables as SQL: what SHOW CREATE prints, and what stored plans have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException
from penstock.table.functions.type_rules import serializable
from penstock.table.quoting import escaped, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.table.catalog.objects import CatalogBaseTable, ObjectIdentifier
    from penstock.table.schema.resolved_schema import Column, ResolvedSchema


def table_text(
    identifier: ObjectIdentifier,
    table: CatalogBaseTable,
    schema: ResolvedSchema,
    *,
    is_temporary: bool = False,
) -> str:
    """Return the statement that creates a table.

    Raises:
        ValidationException: The table is a view, or only exists in the program.
    """
    if table.is_view:
        raise ValidationException(
            f"SHOW CREATE TABLE is only supported for tables, but "
            f"{identifier.as_summary_string()} is a view. Please use SHOW CREATE VIEW instead"
        )
    if table.is_inline:
        raise ValidationException(
            f"Table {identifier.as_summary_string()} exists only in the program: no statement "
            "creates it"
        )
    parts = [_column_text(column) for column in schema.columns]
    parts += [
        f"WATERMARK FOR {quoted(w.rowtime_attribute)} AS {w.text}" for w in schema.watermark_specs
    ]
    if schema.primary_key is not None:
        parts.append(schema.primary_key.as_summary_string())
    columns = ",\n".join(f"  {part}" for part in parts)
    temporary = "TEMPORARY " if is_temporary else ""
    lines = [f"CREATE {temporary}TABLE {identifier.as_serializable_string()} (\n{columns}\n)"]
    if table.comment:
        lines.append(f"COMMENT '{escaped(table.comment)}'")
    if table.distribution:
        lines.append(table.distribution)
    if table.partition_keys:
        keys = ", ".join(quoted(key) for key in table.partition_keys)
        lines.append(f"PARTITIONED BY ({keys})")
    if table.options:
        lines.append(options_text(table.options))
    return "\n".join([*lines, ""])


def _column_text(column: Column) -> str:
    """Format a column as in CREATE TABLE."""
    extras = column.explain_extras()
    parts = [quoted(column.name)]
    if extras is None or not extras.startswith("AS "):
        parts.append(serializable(column.data_type))
    if extras is not None:
        parts.append(extras)
    if column.comment:
        parts.append(f"COMMENT '{escaped(column.comment)}'")
    return " ".join(parts)


def options_text(options: Mapping[str, str]) -> str:
    """Format options as in a WITH clause."""
    pairs = (f"  '{escaped(key)}' = '{escaped(value)}'" for key, value in sorted(options.items()))
    text = ",\n".join(pairs)
    return f"WITH (\n{text}\n)"
