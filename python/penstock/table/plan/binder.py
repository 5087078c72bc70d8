"""Resolution of expressions: names become columns, and calls become functions with types.

One binder serves the trees of SQL and the unresolved expressions of the Table API.
"""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common.types import Row
from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import registry
from penstock.table.functions import type_rules as rules
from penstock.table.functions.aggregates import aggregate_call, find_aggregate
from penstock.table.functions.logic import cast_to
from penstock.table.plan import expressions as e
from penstock.table.plan.scopes import Scope, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.context import PlanningContext
    from penstock.table.plan.expressions import Expression
    from penstock.table.types import DataType

_TEXT = 0x7FFFFFFF
_MILLISECONDS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200}


def literal(value: Any, data_type: DataType | None = None) -> e.Literal:
    """Return the literal of a Python value.

    Raises:
        ValidationException: SQL has no type for the value.
    """
    if data_type is not None:
        return e.Literal(data_type.with_nullability(value is None), value)
    return e.Literal(literal_type(value), value)


def literal_type(value: Any) -> DataType:
    """Return the type of the literal of a Python value.

    Raises:
        ValidationException: SQL has no type for the value.
    """
    match value:
        case None:
            return types.NullType()
        case bool():
            return types.BooleanType(nullable=False)
        case int():
            if -(1 << 31) <= value < 1 << 31:
                return types.IntType(nullable=False)
            if -(1 << 63) <= value < 1 << 63:
                return types.BigIntType(nullable=False)
            return types.DecimalType(min(len(str(abs(value))), 38), 0, nullable=False)
        case float():
            return types.DoubleType(nullable=False)
        case decimal.Decimal():
            _, digits, exponent = value.as_tuple()
            scale = max(-int(exponent), 0)
            return types.DecimalType(max(len(digits), scale, 1), scale, nullable=False)
        case str():
            return (
                types.CharType(max(len(value), 1), nullable=False)
                if value
                else types.CharType(1, nullable=False)
            )
        case bytes() | bytearray():
            return types.BinaryType(max(len(value), 1), nullable=False)
        case datetime.datetime():
            precision = 3 if value.microsecond % 1000 == 0 else 6
            cls = types.TimestampType if value.tzinfo is None else types.LocalZonedTimestampType
            return cls(precision, nullable=False)
        case datetime.date():
            return types.DateType(nullable=False)
        case datetime.time():
            return types.TimeType(0, nullable=False)
        case datetime.timedelta():
            return types.DayTimeIntervalType(fractional_precision=3, nullable=False)
        case list() | tuple():
            kinds = [literal_type(item) for item in value]
            found = rules.common_type(kinds) if kinds else types.NullType()
            if found is None:
                raise ValidationException(f"The elements of {value!r} have no common type")
            return types.ArrayType(found, nullable=False)
        case Row():
            fields = [types.RowField(f"f{i}", literal_type(item)) for i, item in enumerate(value)]
            return types.RowType(fields, nullable=False)
        case dict():
            keys = rules.common_type([literal_type(k) for k in value]) if value else None
            values = rules.common_type([literal_type(v) for v in value.values()])
            if keys is not None and values is not None:
                return types.MapType(keys, values, nullable=False)
    raise ValidationException(f"{value!r} of type {type(value).__name__} has no SQL type")


class Binder:
    """Resolves expressions of one statement.

    Attributes:
        context: The environment.
    """

    def __init__(self, context: PlanningContext) -> None:
        """Create a binder for an environment."""
        self.context = context

    # The Table API --------------------------------------------------------------------------------

    def resolve(self, expression: Any, scope: Scope) -> Expression:
        """Return the resolved form of an expression of the Table API.

        Raises:
            ValidationException: A name is unknown or a type does not fit.
        """
        match expression:
            case e.Expression():
                return expression
            case e.UnresolvedColumn():
                return scope.resolve((expression.name,))
            case e.UnresolvedLiteral():
                return literal(expression.value, expression.type)
            case e.UnresolvedCast():
                return self.cast(
                    self.resolve(expression.argument, scope), expression.type, expression.is_try
                )
            case e.UnresolvedAlias():
                return self.resolve(expression.argument, scope)
            case e.UnresolvedCall():
                return self._resolve_call(expression, scope)
            case e.UnresolvedOver():
                return self._resolve_over(expression, scope)
        raise ValidationException(f"{expression!r} is not an expression")

    def _resolve_call(self, call: e.UnresolvedCall, scope: Scope) -> Expression:
        arguments = [self.resolve(a, scope) for a in call.arguments]
        return self.call(
            call.function, arguments, options=call.options, is_distinct=call.is_distinct
        )

    def _resolve_over(self, over: e.UnresolvedOver, scope: Scope) -> Expression:
        call = self.resolve(over.call, scope)
        if not isinstance(call, e.AggregateCall):
            raise ValidationException(f"'{call}' is not an aggregate, which OVER needs")
        order = tuple(
            e.OrderItem(self.resolve(item, scope), descends, not descends)
            for item, descends in over.order
        )
        partition = tuple(self.resolve(item, scope) for item in over.partition)
        return e.OverCall(call.type, call, partition, order, over.frame)

    # Calls ----------------------------------------------------------------------------------------

    def call(
        self,
        function: Any,
        arguments: Sequence[Expression],
        *,
        options: tuple[Any, ...] = (),
        is_distinct: bool = False,
        is_windowed: bool = False,
        path: tuple[str, ...] = (),
    ) -> Expression:
        """Return the call of a function by its name, or by a user function's wrapper.

        With `is_windowed`, OVER follows the call: its arguments may be aggregates of GROUP BY.

        Raises:
            ValidationException: The function is unknown or its arguments do not fit.
        """
        if not isinstance(function, str):
            return self.python_call(function, list(arguments), is_distinct=is_distinct)
        own = self.context.find_function(path or (function,))
        if own is not None:
            return self.python_call(own, list(arguments), is_distinct=is_distinct)
        aggregate = find_aggregate(function)
        if aggregate is not None:
            refused = e.OverCall if is_windowed else e.AggregateCall
            if any(isinstance(p, refused) for a in arguments for p in e.walk(a)):
                raise ValidationException("Aggregate expressions cannot be nested")
            return aggregate_call(
                aggregate, list(arguments), is_distinct=is_distinct, options=options
            )
        found = registry.find(function)
        if found is None:
            raise ValidationException(
                f"No match found for function signature {function}"
                f"({', '.join(f'<{a.type}>' for a in arguments)}){registry.nearest(function)}"
            )
        return found.call(arguments, options)

    def python_call(
        self, wrapper: Any, arguments: list[Expression], *, is_distinct: bool = False
    ) -> Expression:
        """Return the call of a user function.

        Raises:
            ValidationException: The arguments do not fit, or the function is a table function.
        """
        declared = wrapper.input_types
        if declared is not None and not wrapper.takes_row:
            if len(declared) != len(arguments):
                raise ValidationException(
                    f"Invalid number of arguments to function '{wrapper.name}': it takes "
                    f"{len(declared)}, got {len(arguments)}"
                )
            arguments = [
                self._declared_argument(wrapper, a, kind)
                for a, kind in zip(arguments, declared, strict=True)
            ]
        if wrapper.kind in ("SCALAR", "ASYNC_SCALAR"):
            kind = wrapper.result_type
            return e.PythonCall(kind, wrapper, tuple(arguments), wrapper.name)
        if wrapper.kind in ("AGGREGATE", "TABLE_AGGREGATE"):
            return e.AggregateCall(
                wrapper.result_type, wrapper, tuple(arguments), is_distinct, None, wrapper.name
            )
        raise ValidationException(
            f"'{wrapper.name}' is a table function: use it in LATERAL TABLE(…) or join_lateral(…)"
        )

    @staticmethod
    def _declared_argument(wrapper: Any, argument: Expression, kind: DataType) -> Expression:
        if argument.type.nullable() == kind.nullable():
            return argument
        common = rules.common_type([argument.type.nullable(), kind.nullable()])
        # As in Flink, a DECIMAL parameter accepts each number, and a FLOAT one a DECIMAL.  Others
        # are only widened: an INT parameter does not accept a DOUBLE.
        is_narrowed = type(common) is not type(kind) and (
            rules.is_integer(kind)
            or (isinstance(kind, types.FloatType) and isinstance(argument.type, types.DoubleType))
        )
        if common is None or is_narrowed:
            raise ValidationException(
                f"Function '{wrapper.name}' takes {kind}, got <{argument.type}>"
            )
        return cast_to(argument, kind)

    def cast(self, argument: Expression, target: DataType, is_try: bool = False) -> Expression:
        """Return CAST or TRY_CAST.

        Raises:
            ValidationException: The types cannot be converted.
        """
        source = argument.type
        if rules.is_numeric(source) and isinstance(target, types.LocalZonedTimestampType):
            raise ValidationException(
                "The cast from NUMERIC type to TIMESTAMP_LTZ type is not allowed: use "
                "TO_TIMESTAMP_LTZ(number, precision)"
            )
        if isinstance(source, types.LocalZonedTimestampType) and rules.is_numeric(target):
            raise ValidationException(
                "The cast from TIMESTAMP_LTZ type to NUMERIC type is not allowed"
            )
        if not rules.can_cast(source, target):
            raise ValidationException(
                f"Cast function cannot convert value of type {source.nullable()} to type "
                f"{target.nullable()}"
            )
        nullable = source.is_nullable or isinstance(source, types.NullType) or is_try
        return e.Cast(target.with_nullability(nullable), argument, is_try)

    def field(self, value: Expression, name: Any) -> Expression:
        """Return a field of a row."""
        return fields_of(value, (name,))

    def condition(self, expression: Expression, clause: str) -> Expression:
        """Check a condition and return it.

        Raises:
            ValidationException: It is not a BOOLEAN, or contains an aggregate that is not allowed
                here.
        """
        if isinstance(expression.type, types.NullType):
            return cast_to(expression, types.BooleanType())
        if not isinstance(expression.type, types.BooleanType):
            raise ValidationException(
                f"{clause} clause must be a condition, '{expression}' is of type {expression.type}"
            )
        return expression


def interval(value: str, first: str, last: str | None = None, *, sign: int = 1) -> e.Literal:
    """Return the literal of INTERVAL 'value' first [TO last].

    Raises:
        ValidationException: The text is not such an interval.
    """
    text = value.strip()
    if text[:1] in "+-":
        sign = -sign if text[0] == "-" else sign
        text = text[1:]
    try:
        if first in _MONTHS:
            return _month_interval(text, first, last, sign)
        return _day_interval(text, first, last, sign)
    except (ValueError, decimal.InvalidOperation, KeyError):
        raise ValidationException(
            f"Illegal interval literal '{value}' {first}{f' TO {last}' if last else ''}"
        ) from None


def _month_interval(text: str, first: str, last: str | None, sign: int) -> e.Literal:
    if last is not None:
        years, _, months = text.partition("-")
        total = int(years) * 12 + int(months or 0)
    else:
        total = int(text) * _MONTHS[first]
    resolution = types.YearMonthIntervalType.YearMonthResolution
    name = f"{first}_TO_{last}" if last else first
    kind = types.YearMonthIntervalType(
        resolution.__members__.get(name, resolution.MONTH), nullable=False
    )
    return e.Literal(kind, sign * total)


def _day_interval(text: str, first: str, last: str | None, sign: int) -> e.Literal:
    if last is None:
        milliseconds = decimal.Decimal(text) * _MILLISECONDS[first]
    else:
        units = ["DAY", "HOUR", "MINUTE", "SECOND"]
        wanted = units[units.index(first) : units.index(last) + 1]
        parts = text.replace(" ", ":").split(":")
        if len(parts) != len(wanted):
            raise ValueError(text)
        milliseconds = sum(
            (decimal.Decimal(p) * _MILLISECONDS[u] for p, u in zip(parts, wanted, strict=True)),
            decimal.Decimal(0),
        )
    resolution = types.DayTimeIntervalType.DayTimeResolution
    name = f"{first}_TO_{last}" if last else first
    kind = types.DayTimeIntervalType(
        resolution.__members__.get(name, resolution.SECOND), nullable=False
    )
    return e.Literal(kind, datetime.timedelta(milliseconds=float(sign * milliseconds)))


def refuse(what: str) -> NoReturn:
    """Reject a Flink feature that penstock does not support yet.

    Raises:
        TableException: Always.
    """
    raise TableException(f"{what} is not supported")
