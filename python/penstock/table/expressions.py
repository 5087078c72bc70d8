"""Functions that create expressions: columns, literals, and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.exceptions import ValidationException
from penstock.table.expression.expression import Expression, make_call, tree_of
from penstock.table.expression.literals import check_literal
from penstock.table.expression.options import JsonOnNull, TimePointUnit
from penstock.table.plan.expressions import (
    UnresolvedCall,
    UnresolvedColumn,
    UnresolvedLiteral,
)

if TYPE_CHECKING:
    from penstock.table import types
    from penstock.table.udf.wrappers import UserDefinedFunctionWrapper

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]

UNBOUNDED_ROW: Expression[Any] = Expression(UnresolvedCall("UNBOUNDED_ROW"))
"""The bound of an OVER window that covers all rows before the current one."""
UNBOUNDED_RANGE: Expression[Any] = Expression(UnresolvedCall("UNBOUNDED_RANGE"))
"""The bound of an OVER window that covers all times before the current one."""
CURRENT_ROW: Expression[Any] = Expression(UnresolvedCall("CURRENT_ROW"))
"""The bound of an OVER window at the current row."""
CURRENT_RANGE: Expression[Any] = Expression(UnresolvedCall("CURRENT_RANGE"))
"""The bound of an OVER window at the time of the current row."""


def col(name: str) -> Expression[Any]:
    """Return a column of the table; ``col("*")`` represents all columns."""
    return Expression(UnresolvedColumn(name))


def lit(v: Any, data_type: types.DataType | None = None) -> Expression[Any]:
    """Return a constant.

    Args:
        v: The Python value.
        data_type: Its type; inferred from the value by default.

    Raises:
        AttributeError: SQL has no type for the value.
    """
    check_literal(v)
    return Expression(UnresolvedLiteral(v, data_type))


def range_(start: str | int, end: str | int) -> Expression[Any]:
    """Return a range of columns for ``with_columns``, both ends included, by name or from 1."""
    return Expression(UnresolvedCall("RANGE", options=(start, end)))


# Logic --------------------------------------------------------------------------------------------


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether all conditions are true, in three-valued logic."""
    result = make_call("AND", predicate0, predicate1)
    for predicate in predicates:
        result = make_call("AND", result, predicate)
    return result


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether one condition is true, in three-valued logic."""
    result = make_call("OR", predicate0, predicate1)
    for predicate in predicates:
        result = make_call("OR", result, predicate)
    return result


def not_(expression: Expression[bool]) -> Expression[bool]:
    """Return the negated condition; NULL for NULL."""
    return make_call("NOT", expression)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression[Any]:
    """Return one of two values."""
    return make_call("IF THEN ELSE", condition, if_true, if_false)


def coalesce(*args: Any) -> Expression[Any]:
    """Return the first argument that is not NULL."""
    return make_call("COALESCE", *args)


def null_of(data_type: types.DataType) -> Expression[Any]:
    """Return NULL of a type."""
    return Expression(UnresolvedLiteral(None, data_type.nullable()))


# Times --------------------------------------------------------------------------------------------


def current_database() -> Expression[str]:
    """Return the name of the current database."""
    return make_call("CURRENT_DATABASE")


def current_date() -> Expression[Any]:
    """Return the date in the session's time zone."""
    return make_call("CURRENT_DATE")


def current_time() -> Expression[Any]:
    """Return the time of day in the session's time zone."""
    return make_call("CURRENT_TIME")


def current_timestamp() -> Expression[Any]:
    """Return the current instant, as TIMESTAMP_LTZ(3)."""
    return make_call("CURRENT_TIMESTAMP")


def current_watermark(rowtimeAttribute: Any) -> Expression[Any]:
    """Return the watermark of an event-time column; NULL before the first one."""
    return make_call("CURRENT_WATERMARK", rowtimeAttribute)


def local_time() -> Expression[Any]:
    """Return the time of day in the session's time zone."""
    return make_call("LOCALTIME")


def local_timestamp() -> Expression[Any]:
    """Return date and time in the session's time zone, as TIMESTAMP(3)."""
    return make_call("LOCALTIMESTAMP")


def to_date(date_str: Any, format: Any = None) -> Expression[Any]:
    """Parse a date, by default of the form ``yyyy-MM-dd``."""
    return make_call("TO_DATE", date_str, *_given(format))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression[Any]:
    """Parse a timestamp, by default of the form ``yyyy-MM-dd HH:mm:ss``."""
    return make_call("TO_TIMESTAMP", timestamp_str, *_given(format))


def to_timestamp_ltz(*args: Any) -> Expression[Any]:
    """Return the instant of a number since 1970 with a precision, or of a text with a format.

    Raises:
        ValidationException: There are no arguments, or more than three.
    """
    if not 1 <= len(args) <= 3:
        raise ValidationException(f"to_timestamp_ltz takes 1 to 3 arguments, got {len(args)}")
    return make_call("TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression[bool]:
    """Return whether two periods overlap, each given by its start and its end or length."""
    arguments = left_time_point, left_temporal, right_time_point, right_temporal
    return make_call("OVERLAPS", *arguments)


def date_format(timestamp: Any, format: Any) -> Expression[str]:
    """Format a point in time by a pattern of Java's SimpleDateFormat."""
    return make_call("DATE_FORMAT", timestamp, format)


def timestamp_diff(
    time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any
) -> Expression[int]:
    """Return the number of whole units from the first point in time to the second."""
    return make_call("TIMESTAMPDIFF", time_point1, time_point2, options=(time_point_unit.name,))


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression[str]:
    """Convert a timestamp as text to another time zone."""
    return make_call("CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression[str]:
    """Format seconds since 1970 in the session's time zone."""
    return make_call("FROM_UNIXTIME", unixtime, *_given(format))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression[int]:
    """Return seconds since 1970: the current time, or that of a text in the session's time zone."""
    return make_call("UNIX_TIMESTAMP", *_given(date_str), *_given(format))


def source_watermark() -> Expression[Any]:
    """Return the source's own watermark; only valid in ``Schema.watermark``."""
    return make_call("SOURCE_WATERMARK")


# Collections and rows -----------------------------------------------------------------------------


def array(head: Any, *tail: Any) -> Expression[Any]:
    """Return an array of values of one type."""
    return make_call("ARRAY", head, *tail)


def row(head: Any, *tail: Any) -> Expression[Any]:
    """Return a row of values."""
    return make_call("ROW", head, *tail)


def map_(key: Any, value: Any, *tail: Any) -> Expression[Any]:
    """Return a map of alternating keys and values."""
    return make_call("MAP", key, value, *tail)


def map_from_arrays(key: Any, value: Any) -> Expression[Any]:
    """Return the map of an array of keys and one of values."""
    return make_call("MAP_FROM_ARRAYS", key, value)


def object_of(class_name: str, *args: Any) -> Expression[Any]:
    """Return a structured object with fields, given as alternating names and values."""
    return make_call("OBJECT_OF", class_name, *args)


def descriptor(*column_names: str) -> Expression[Any]:
    """Return column names as the argument of a table function."""
    return Expression(UnresolvedCall("DESCRIPTOR", options=column_names))


def row_interval(rows: int) -> Expression[int]:
    """Return a number of rows, as the size of a window.

    Raises:
        ValidationException: The value is not an integer.
    """
    if not isinstance(rows, int):
        raise ValidationException(f"row_interval takes a whole number of rows, got {rows!r}")
    return Expression(UnresolvedCall("ROW_INTERVAL", options=(rows,)))


# Numbers and texts --------------------------------------------------------------------------------


def pi() -> Expression[float]:
    """Return the number π."""
    return make_call("PI")


def e() -> Expression[float]:
    """Return Euler's number."""
    return make_call("E")


def rand(seed: Any = None) -> Expression[float]:
    """Return a random number from 0, inclusive, to 1, exclusive."""
    return make_call("RAND", *_given(seed))


def rand_integer(bound: Any, seed: Any = None) -> Expression[int]:
    """Return a random integer from 0, inclusive, to ``bound``, exclusive."""
    return make_call("RAND_INTEGER", *_given(seed), bound)


def atan2(y: Any, x: Any) -> Expression[float]:
    """Return the angle of the point (x, y) in radians."""
    return make_call("ATAN2", y, x)


def negative(v: Any) -> Expression[Any]:
    """Return the negated number."""
    return make_call("NEGATIVE", v)


def log(v: Any, base: Any = None) -> Expression[float]:
    """Return the natural logarithm, or the one to a base."""
    return make_call("LN", v) if base is None else make_call("LOG", base, v)


def concat(first: Any, *others: Any) -> Expression[str]:
    """Concatenate texts; NULL if one of them is NULL."""
    return make_call("CONCAT", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression[str]:
    """Concatenate texts with a separator, omitting NULLs."""
    return make_call("CONCAT_WS", separator, first, *others)


def uuid() -> Expression[str]:
    """Return a random UUID for each row."""
    return make_call("UUID")


# Columns ------------------------------------------------------------------------------------------


def with_all_columns() -> Expression[Any]:
    """Return all columns, as ``col("*")`` does."""
    return col("*")


def with_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return several columns: by name, position from 1, expression or ``range_``."""
    trees = tuple(map(_column_tree, (head, *tails)))
    return Expression(UnresolvedCall("WITH_COLUMNS", trees))


def without_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return all columns except several: by name, position from 1, expression or ``range_``."""
    trees = tuple(map(_column_tree, (head, *tails)))
    return Expression(UnresolvedCall("WITHOUT_COLUMNS", trees))


def _column_tree(value: Any) -> Any:
    return UnresolvedColumn(value) if isinstance(value, str) else tree_of(value)


# JSON ---------------------------------------------------------------------------------------------


def json(value: Any) -> Expression[str]:
    """Mark a text as JSON, which ``json_object`` and ``json_array`` insert unchanged."""
    return make_call("JSON", value)


def json_string(value: Any) -> Expression[str]:
    """Return a value as JSON text."""
    return make_call("JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression[str]:
    """Return a JSON object of alternating keys and values."""
    return make_call("JSON_OBJECT", *args, options=(on_null.name,))


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression[str]:
    """Return the JSON object of the keys and values of a group."""
    return make_call("JSON_OBJECTAGG", key_expr, value_expr, options=(on_null.name,))


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression[str]:
    """Return a JSON array of values."""
    return make_call("JSON_ARRAY", *args, options=(on_null.name,))


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression[str]:
    """Return the JSON array of the values of a group."""
    return make_call("JSON_ARRAYAGG", item_expr, options=(on_null.name,))


# Calls --------------------------------------------------------------------------------------------


def lag(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value of a row before the current one, for ``over``."""
    return make_call("LAG", expr, offset, *_given(default))


def lead(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value of a row after the current one, for ``over``."""
    return make_call("LEAD", expr, offset, *_given(default))


def call(f: str | UserDefinedFunctionWrapper, *args: Any) -> Expression[Any]:
    """Return the call of a function.

    Args:
        f: The name of a built-in or registered function, or the result of ``udf``, ``udtf``,
            ``udaf`` or ``udtaf``.
        args: The arguments.
    """
    return Expression(UnresolvedCall(f, tuple(map(tree_of, args))))


def call_sql(sql_expression: str) -> Expression[Any]:
    """Return the expression for an SQL text."""
    return Expression(UnresolvedCall("SQL", options=(sql_expression,)))


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)
