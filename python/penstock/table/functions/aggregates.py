"""Aggregate functions: their argument types and result types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.plan.expressions import AggregateCall, Expression, Literal, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function of the table.

    Attributes:
        name: The name in SQL.
        least: The smallest number of arguments.
        most: The largest number of arguments.
        accepts: Whether the first argument may be of a type.
        result: Returns the type of the result for the arguments.
        is_over_only: Whether it is valid only in OVER.
    """

    name: str
    least: int
    most: int
    accepts: Callable[[DataType], bool]
    result: Callable[[list[Expression]], DataType]
    is_over_only: bool = False


def _bigint(_: list[Expression]) -> DataType:
    return types.BigIntType(nullable=False)


def _first(arguments: list[Expression]) -> DataType:
    return arguments[0].type.nullable()


def _plain_first(arguments: list[Expression]) -> DataType:
    from penstock.table.plan.schema import materialized

    return materialized(arguments[0].type).nullable()


def _json_text(_: list[Expression]) -> DataType:
    """Return the type that Flink declares; longer texts are not cut."""
    return types.VarCharType(2000, nullable=False)


def _neighbour(arguments: list[Expression]) -> DataType:
    """Return the type of LAG and LEAD, which Flink takes from the default alone."""
    is_nullable = len(arguments) < 3 or arguments[2].type.is_nullable
    return _plain_first(arguments).with_nullability(is_nullable)


def _variance_type(arguments: list[Expression]) -> DataType:
    kind = arguments[0].type
    if isinstance(kind, types.DecimalType):
        return rules.avg_type(kind)
    return kind.nullable()


def _percentile_type(arguments: list[Expression]) -> DataType:
    """Return DOUBLE, or an array of it for several shares.

    Raises:
        ValidationException: A constant share is not between 0 and 1, or a type is wrong.
    """
    value, share, *times = arguments
    kind = share.type
    is_several = isinstance(kind, types.ArrayType)
    number = kind.element_type if isinstance(kind, types.ArrayType) else kind
    if not rules.is_numeric(number):
        raise ValidationException(
            f"PERCENTILE takes a number or an array of numbers as its share, got <{kind}>"
        )
    if times and not rules.is_integer(times[0].type):
        raise ValidationException(
            f"PERCENTILE takes an integer as the frequency of a value, got <{times[0].type}>"
        )
    for part in walk(share):
        if isinstance(part, Literal) and not (part.value is not None and 0 <= part.value <= 1):
            raise ValidationException(
                f"PERCENTILE takes a share between 0 and 1, got {part.value} for '{value}'"
            )
    return types.ArrayType(types.DoubleType()) if is_several else types.DoubleType()


def _any(_: DataType) -> bool:
    return True


def _ordered(kind: DataType) -> bool:
    return not isinstance(kind, types.ArrayType | types.MapType | types.RowType)


AGGREGATES: Final[dict[str, AggregateFunction]] = {
    f.name: f
    for f in (
        AggregateFunction("COUNT", 0, 99, _any, _bigint),
        AggregateFunction("SUM", 1, 1, rules.is_numeric, lambda a: rules.sum_type(a[0].type)),
        AggregateFunction(
            "$SUM0", 1, 1, rules.is_numeric, lambda a: rules.sum_type(a[0].type).not_null()
        ),
        AggregateFunction("AVG", 1, 1, rules.is_numeric, lambda a: rules.avg_type(a[0].type)),
        AggregateFunction("MIN", 1, 1, _ordered, _plain_first),
        AggregateFunction("MAX", 1, 1, _ordered, _plain_first),
        AggregateFunction("STDDEV_POP", 1, 1, rules.is_numeric, _variance_type),
        AggregateFunction("STDDEV_SAMP", 1, 1, rules.is_numeric, _variance_type),
        AggregateFunction("VAR_POP", 1, 1, rules.is_numeric, _variance_type),
        AggregateFunction("VAR_SAMP", 1, 1, rules.is_numeric, _variance_type),
        AggregateFunction("PERCENTILE", 2, 3, rules.is_numeric, _percentile_type),
        AggregateFunction("SINGLE_VALUE", 1, 1, _any, _plain_first),
        AggregateFunction("APPROX_COUNT_DISTINCT", 1, 1, _any, _bigint),
        AggregateFunction("COLLECT", 1, 1, _any, lambda a: types.MultisetType(a[0].type)),
        AggregateFunction("ARRAY_AGG", 1, 1, _any, lambda a: types.ArrayType(a[0].type)),
        AggregateFunction("LISTAGG", 1, 2, rules.is_text, _plain_first),
        AggregateFunction("FIRST_VALUE", 1, 2, _any, _plain_first),
        AggregateFunction("LAST_VALUE", 1, 2, _any, _plain_first),
        AggregateFunction("JSON_ARRAYAGG", 1, 1, _any, _json_text),
        AggregateFunction("JSON_OBJECTAGG", 2, 2, _any, _json_text),
        AggregateFunction("LAG", 1, 3, _any, _neighbour, is_over_only=True),
        AggregateFunction("LEAD", 1, 3, _any, _neighbour, is_over_only=True),
        AggregateFunction("ROW_NUMBER", 0, 0, _any, _bigint, is_over_only=True),
        AggregateFunction("RANK", 0, 0, _any, _bigint, is_over_only=True),
        AggregateFunction("DENSE_RANK", 0, 0, _any, _bigint, is_over_only=True),
        AggregateFunction(
            "PERCENT_RANK", 0, 0, _any, lambda _: types.DoubleType(False), is_over_only=True
        ),
        AggregateFunction(
            "CUME_DIST", 0, 0, _any, lambda _: types.DoubleType(False), is_over_only=True
        ),
        AggregateFunction("NTILE", 1, 1, _any, _bigint, is_over_only=True),
    )
}
_ALIASES: Final = {"VARIANCE": "VAR_SAMP", "STDDEV": "STDDEV_SAMP"}


def find_aggregate(name: str) -> AggregateFunction | None:
    """Return the aggregate function with a name, or None."""
    upper = name.upper()
    return AGGREGATES.get(_ALIASES.get(upper, upper))


def aggregate_call(
    function: AggregateFunction,
    arguments: list[Expression],
    *,
    is_distinct: bool = False,
    condition: Expression | None = None,
    options: tuple[Any, ...] = (),
) -> AggregateCall:
    """Return the call of an aggregate function.

    Raises:
        ValidationException: The number or the types of the arguments are wrong.
    """
    if not function.least <= len(arguments) <= function.most:
        raise ValidationException(
            f"Invalid number of arguments to function '{function.name}': it takes "
            f"{function.least} to {function.most}, got {len(arguments)}"
        )
    if arguments and not function.accepts(arguments[0].type):
        raise ValidationException(
            f"Cannot apply '{function.name}' to an argument of type <{arguments[0].type}>"
        )
    if function.name == "LISTAGG" and len(arguments) == 2:
        separator = arguments.pop()
        if not isinstance(separator, Literal):
            raise ValidationException("The separator of LISTAGG must be a constant")
        options = (separator.value,)
    result = function.result(arguments)
    return AggregateCall(
        result, function.name, tuple(arguments), is_distinct, condition, function.name, options
    )


def is_mergeable(call: AggregateCall) -> bool:
    """Return whether partial results of a call merge to the same result in any order."""
    if len(call.arguments) > 1:
        return False
    kind = call.arguments[0].type if call.arguments else None
    match call.function:
        case "COUNT":
            return not call.is_distinct
        case "SUM" | "$SUM0" | "AVG":
            return not call.is_distinct and kind is not None and rules.is_integer(kind)
        case "MIN" | "MAX":
            return isinstance(
                kind, types.DateType | types.TimestampType | types.LocalZonedTimestampType
            ) or (kind is not None and rules.is_integer(kind))
    return False
