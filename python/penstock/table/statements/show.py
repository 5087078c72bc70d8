"""DESCRIBE, SHOW CREATE and other SHOW statements: definitions as rows and as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.table.catalog.definitions import options_text, table_text
from penstock.table.exceptions import ValidationException
from penstock.table.quoting import dotted, escaped, quoted
from penstock.table.table_result.table_result import StaticResult, TextResult
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.catalog.objects import CatalogBaseTable, CatalogFunction, ObjectIdentifier
    from penstock.table.schema.resolved_schema import Column, ResolvedSchema
    from penstock.table.sql.statements import Show

_STRING: Final = DataTypes.STRING()


def described(schema: ResolvedSchema) -> StaticResult:
    """Return the result of DESCRIBE, with a row for each column."""
    has_comments = any(column.comment is not None for column in schema.columns)
    watermarks = {w.rowtime_attribute: w.text for w in schema.watermark_specs}
    key = schema.primary_key
    key_text = None if key is None else f"PRI({', '.join(key.columns)})"
    rows = []
    for column in schema.columns:
        is_key = key is not None and column.name in key.columns
        row: list[Any] = [
            column.name,
            _type_text(column),
            column.data_type.is_nullable,
            key_text if is_key else None,
            column.explain_extras(),
            watermarks.get(column.name),
        ]
        rows.append([*row, column.comment] if has_comments else row)
    names = ["name", "type", "null", "key", "extras", "watermark"]
    kinds = [_STRING, _STRING, DataTypes.BOOLEAN(), _STRING, _STRING, _STRING]
    if has_comments:
        names.append("comment")
        kinds.append(_STRING)
    return StaticResult(names, kinds, rows)


def _type_text(column: Column) -> str:
    """Format the type of a column for DESCRIBE, without NOT NULL."""
    kind: Any = column.data_type.nullable()
    describe = getattr(kind, "describe", None)
    return str(kind) if describe is None else str(describe())


def created_table(
    identifier: ObjectIdentifier,
    table: CatalogBaseTable,
    schema: ResolvedSchema,
    *,
    is_temporary: bool,
) -> TextResult:
    """Return the result of SHOW CREATE TABLE.

    Raises:
        ValidationException: The table is a view, or only exists in the program.
    """
    return TextResult(table_text(identifier, table, schema, is_temporary=is_temporary))


def created_view(
    identifier: ObjectIdentifier,
    table: CatalogBaseTable,
    schema: ResolvedSchema,
    *,
    is_temporary: bool,
) -> TextResult:
    """Return the result of SHOW CREATE VIEW.

    Raises:
        ValidationException: The table is not a view, or only exists in the program.
    """
    if table.query is None:
        what = "lives in the program" if table.is_view else "is a table: use SHOW CREATE TABLE"
        raise ValidationException(
            f"SHOW CREATE VIEW is only supported for views of SQL, but "
            f"{identifier.as_summary_string()} {what}"
        )
    columns = ",\n".join(f"  {quoted(name)}" for name in schema.get_column_names())
    temporary = "TEMPORARY " if is_temporary else ""
    comment = "" if not table.comment else f"COMMENT '{escaped(table.comment)}'\n"
    text = (
        f"CREATE {temporary}VIEW {identifier.as_serializable_string()} (\n{columns}\n)\n{comment}"
        f"AS {table.expanded_query or table.query}\n"
    )
    return TextResult(text)


def listed(column: str, names: Sequence[str], statement: Show | None = None) -> StaticResult:
    """Return names as rows of one column, filtered by the pattern of SHOW."""
    if statement is not None and statement.pattern is not None:
        pattern = like_pattern(statement.pattern, is_insensitive=statement.is_insensitive)
        names = [
            name for name in names if (pattern.fullmatch(name) is None) == statement.is_negated
        ]
    return StaticResult([column], [_STRING], [[name] for name in names])


def like_pattern(text: str, *, is_insensitive: bool) -> re.Pattern[str]:
    """Convert a LIKE pattern to a regular expression."""
    parts = ("." if c == "_" else ".*" if c == "%" else re.escape(c) for c in text)
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if is_insensitive else 0))


def created_catalog(name: str, options: Mapping[str, str], comment: str | None) -> TextResult:
    """Return the statement that creates a catalog."""
    lines = [f"CREATE CATALOG {quoted(name)}"]
    if comment:
        lines.append(f"COMMENT '{escaped(comment)}'")
    given = options or {"type": "generic_in_memory"}
    return TextResult("\n".join([*lines, options_text(given), ""]))


def created_function(path: Sequence[str], function: CatalogFunction) -> TextResult:
    """Return the statement that creates a function."""
    name = dotted(path)
    return TextResult(
        f"CREATE FUNCTION {name} AS '{function.class_name}' LANGUAGE {function.language}\n"
    )
