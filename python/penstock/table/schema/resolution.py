"""Resolution of declared schemas: types of computed columns, time attributes, keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expression.call_resolution import resolve
from penstock.table.expression.expression import Expression
from penstock.table.plan.binder import Binder
from penstock.table.plan.expanded_expressions import QUOTED_FUNCTIONS
from penstock.table.plan.schema import Field
from penstock.table.plan.schema import Schema as PlanSchema
from penstock.table.plan.scopes import Scope
from penstock.table.plan.sql_expressions import SqlExpressions
from penstock.table.schema.resolved_schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedSchema,
    UniqueConstraint,
    WatermarkSpec,
)
from penstock.table.sql.parsing import parse_expression
from penstock.table.types import TimeAttribute
from penstock.table.udf.wrappers import parsed_type

if TYPE_CHECKING:
    from penstock.table.plan.context import PlanningContext
    from penstock.table.schema.schema import DeclaredColumn, Schema

SOURCE_WATERMARK: Final = "SOURCE_WATERMARK"
"""The expression of a source's own watermark."""

_TIMESTAMPS = (types.TimestampType, types.LocalZonedTimestampType)


def resolve_schema(schema: Schema, context: PlanningContext) -> ResolvedSchema:
    """Resolve the columns of a declared schema.

    Raises:
        ValidationException: A name is unknown or duplicate, a type does not fit, or the
            watermark or the primary key is invalid: columns of a key are NOT NULL.
    """
    _check_duplicates([column.name for column in schema.columns])
    _check_metadata_keys(schema)
    base = [_stored_column(c) for c in schema.columns if not c.is_computed]
    scope = Scope.of(PlanSchema(tuple(Field(c.name, c.data_type) for c in base)))
    by_name = {column.name: column for column in base}
    columns: list[Column] = [
        _computed(column, scope, context) if column.is_computed else by_name[column.name]
        for column in schema.columns
    ]
    _check_key(columns, schema)
    watermarks = [
        _watermark(declared.column, declared.expression, columns, context)
        for declared in schema.watermark_specs
    ]
    if len(watermarks) > 1:
        raise ValidationException("A table has at most one watermark")
    for watermark in watermarks:
        columns = [_as_rowtime(c) if c.name == watermark.rowtime_attribute else c for c in columns]
    key = schema.primary_key
    constraint = None if key is None else UniqueConstraint(key[0], key[1])
    return ResolvedSchema(columns, watermarks, constraint)


def _check_duplicates(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValidationException(
            f"Schema must not contain duplicate column names. Found duplicates: {twice}"
        )


def _check_metadata_keys(schema: Schema) -> None:
    columns: dict[str, str] = {}
    for column in schema.columns:
        if not column.is_metadata:
            continue
        key = column.metadata_key or column.name
        if key in columns:
            raise ValidationException(
                f"The column `{columns[key]}` and `{column.name}` in the table are both from the "
                f"same metadata key '{key}'. Please specify one of the columns as the metadata "
                "column and use the computed column syntax to specify the others."
            )
        columns[key] = column.name


def _stored_column(column: DeclaredColumn) -> Column:
    assert column.data_type is not None
    data_type = parsed_type(column.data_type)
    if column.is_metadata:
        key = None if column.metadata_key == column.name else column.metadata_key
        return MetadataColumn(column.name, data_type, column.comment, key, column.is_virtual)
    return PhysicalColumn(column.name, data_type, column.comment)


def _computed(column: DeclaredColumn, scope: Scope, context: PlanningContext) -> ComputedColumn:
    assert column.expression is not None
    try:
        bound = bind_scalar(column.expression, scope, context)
    except TableException as error:
        raise ValidationException(
            f"Invalid expression for computed column '{column.name}': {error}"
        ) from error
    text = expression_text(column.expression)
    return ComputedColumn(column.name, bound.type, column.comment, bound, text)


def bind_scalar(expression: str | Expression[Any], scope: Scope, context: PlanningContext) -> Any:
    """Resolve an expression, given as SQL text or as an `Expression`."""

    def of_sql(text: str, names: Scope) -> Any:
        return bind_tree(parse_expression(text), names, context)

    if isinstance(expression, Expression):
        return resolve(of_sql, Binder(context), expression.tree, scope)
    return of_sql(expression, scope)


def bind_tree(tree: Any, scope: Scope, context: PlanningContext) -> Any:
    """Resolve sqlglot's tree of an expression."""

    def no_query(*_: Any) -> Any:
        raise ValidationException("A subquery is not allowed here")

    return SqlExpressions(Binder(context), scope, bind_query=no_query).bind(tree)


def _check_key(columns: list[Column], schema: Schema) -> None:
    if schema.primary_key is None:
        return
    name, keys = schema.primary_key
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValidationException(
            f"Invalid primary key '{name}'. A primary key must not contain duplicate columns. "
            f"Found: {twice}"
        )
    by_name = {column.name: column for column in columns}
    for key in keys:
        found = by_name.get(key)
        if found is None:
            raise ValidationException(
                f"Invalid primary key '{name}'. Column '{key}' does not exist: the table has "
                f"{', '.join(by_name)}"
            )
        if not found.is_physical():
            raise ValidationException(
                f"Invalid primary key '{name}'. Column '{key}' is not a physical column"
            )
        if found.data_type.is_nullable:
            raise ValidationException(f"Invalid primary key '{name}'. Column '{key}' is nullable.")


def is_source_watermark(expression: Any) -> bool:
    """Return whether a declared watermark is SOURCE_WATERMARK()."""
    text = str(expression).strip().upper().replace(" ", "")
    return text in (SOURCE_WATERMARK, f"{SOURCE_WATERMARK}()")


def _watermark(
    name: str, expression: Any, columns: list[Column], context: PlanningContext
) -> WatermarkSpec:
    by_name = {column.name: column for column in columns}
    column = by_name.get(name)
    if column is None:
        raise ValidationException(
            f"Invalid column name '{name}' for rowtime attribute in watermark declaration. "
            f"Available columns are: [{', '.join(by_name)}]"
        )
    kind = column.data_type
    if not isinstance(kind, _TIMESTAMPS) or kind.precision > 3 or kind.is_proctime:
        raise ValidationException(
            f"Invalid data type of time field for watermark definition. The field '{name}' must be "
            f"of type TIMESTAMP(p) or TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to "
            f"3, but the time field type is {kind}"
        )
    if is_source_watermark(expression):
        return WatermarkSpec(name, None, "SOURCE_WATERMARK()")
    scope = Scope.of(PlanSchema(tuple(Field(c.name, c.data_type) for c in columns)))
    try:
        bound = bind_scalar(expression, scope, context)
    except TableException as error:
        raise ValidationException(
            f"Invalid expression for watermark of '{name}': {error}"
        ) from error
    if not isinstance(bound.type, _TIMESTAMPS):
        raise ValidationException(
            f"Invalid data type of expression for watermark definition. The watermark of '{name}' "
            f"must be of type TIMESTAMP or TIMESTAMP_LTZ, but it is {bound.type}"
        )
    return WatermarkSpec(name, bound, expression_text(expression))


def _as_rowtime(column: Column) -> Column:
    kind: Any = column.data_type
    return column.copy(kind.with_time_attribute(TimeAttribute.ROWTIME))


_TOKENS: Final = re.compile(
    r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[A-Za-z_$][\w$]*|<>|<=|>=|!="
    r"|\|\||=>|\S"
)
_WORDS: Final = frozenset(
    """
    AND OR NOT IS NULL TRUE FALSE UNKNOWN CASE WHEN THEN ELSE END CAST AS INTERVAL SECOND MINUTE
    HOUR DAY MONTH YEAR WEEK QUARTER TO IN LIKE BETWEEN ESCAPE SIMILAR FROM FOR DATE TIME TIMESTAMP
    TIMESTAMP_LTZ INT INTEGER BIGINT SMALLINT TINYINT FLOAT DOUBLE PRECISION DECIMAL NUMERIC STRING
    VARCHAR CHAR BOOLEAN BYTES VARBINARY BINARY ARRAY MAP ROW MULTISET DISTINCT BOTH LEADING
    TRAILING RETURNING EMPTY ERROR ON DEFAULT SECONDS MINUTES HOURS DAYS CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP WITHOUT WITH LOCAL ZONE
    """.split()  # noqa: SIM905 - the lines read better than a hundred quotes
)
_CLOSE: Final = frozenset((")", ",", ".", "]"))
_OPEN: Final = frozenset(("(", ".", "["))


def expression_text(expression: Any) -> str:
    """Format an expression like Flink: names in quotes, functions in upper case."""
    if isinstance(expression, Expression):
        return str(expression)
    tokens = _TOKENS.findall(expression)
    shown: list[str] = []
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if re.match(r"[A-Za-z_$]", token):
            is_word = token.upper() in _WORDS or following == "("
            after_dot = bool(i) and tokens[i - 1] == "."
            is_plain = is_word and token.upper() not in QUOTED_FUNCTIONS
            token = token.upper() if is_word and not after_dot else token
            token = token if is_plain and not after_dot else f"`{token}`"
        shown.append(token)
    text = ""
    for i, token in enumerate(shown):
        before = shown[i - 1] if i else ""
        is_call = token == "(" and bool(re.match(r"[A-Z_`]", before)) and before not in (
            "AND", "OR", "IN", "NOT", "THEN", "ELSE", "WHEN", "CASE",
        )  # fmt: skip
        tight = not text or token in _CLOSE or before in _OPEN or is_call or token == "["
        text += token if tight else f" {token}"
    return text
