"""Arithmetic and numeric functions."""

from __future__ import annotations

import decimal
import math
import random
import string
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.logic import cast_to
from penstock.table.functions.registry import (
    column_values,
    define,
    literal_value,
    rowwise,
)
from penstock.table.plan.expressions import Call, Cast, Expression

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType

DOUBLE = types.DoubleType()
INT = types.IntType()
BIGINT = types.BigIntType()
_CONTEXT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
_HEX_DIGITS = frozenset(string.hexdigits)
_POSITIVE = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


def arithmetic(operator: str) -> Callable[..., Expression]:
    """Return the binder of ``+ - * / %`` for numbers, times and intervals."""

    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        left, right = arguments
        if isinstance(left.type, types.NullType):
            left = cast_to(left, right.type if rules.is_numeric(right.type) else INT)
        if isinstance(right.type, types.NullType):
            right = cast_to(right, left.type if rules.is_numeric(left.type) else INT)
        result = rules.arithmetic_type(operator, left.type, right.type)
        if operator == "%" and (rules.is_float(left.type) or rules.is_float(right.type)):
            raise ValidationException(
                f"Cannot apply '%' to arguments of type '<{left.type}> % <{right.type}>': it takes "
                "integers and decimals, use CAST"
            )
        if result is None:
            from penstock.table.functions.times import time_arithmetic

            made = time_arithmetic(operator, left, right)
            if made is None:
                raise ValidationException(
                    f"Cannot apply '{operator}' to arguments of type "
                    f"'<{left.type}> {operator} <{right.type}>'"
                )
            return made
        if isinstance(result, types.DecimalType):
            return Call(result, operator, (left, right))
        wide = result
        if rules.is_float(result):
            wide = types.DoubleType() if _has_double(left, right) else result
        elif operator == "%":
            wide = rules.arithmetic_type("+", left.type, right.type) or result
        nullable = result.is_nullable
        made = Call(
            wide.with_nullability(nullable), operator, (cast_to(left, wide), cast_to(right, wide))
        )
        return made if type(wide) is type(result) else Cast(result, made, is_implicit=True)

    return bind


def _has_double(*arguments: Expression) -> bool:
    return any(isinstance(a.type, types.DoubleType | types.DecimalType) for a in arguments)


def _arithmetic_kernel(operator: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow.compute as pc

        if isinstance(call.type, types.DecimalType):
            return _decimal_arithmetic(operator, arguments, rows, call)
        if operator == "%":
            left, right = arguments
            if rules.is_float(call.type):
                return _float_remainder(arguments, rows, call)
            return pc.subtract(left, pc.multiply(pc.divide(left, right), right))
        return getattr(pc, _POSITIVE[operator])(*arguments)

    if operator not in ("/", "%"):
        return kernel

    def dividing_kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow as pa

        try:
            return kernel(arguments, rows, call)
        except (ZeroDivisionError, pa.ArrowInvalid) as error:
            if isinstance(error, pa.ArrowInvalid) and "divide by zero" not in str(error):
                raise
            raise TableException(
                f"/ by zero in {call}: NULLIF(divisor, 0) gives NULL instead"
            ) from None

    return dividing_kernel


_float_remainder = rowwise(lambda a, b: math.fmod(a, b) if b and not math.isinf(a) else math.nan)


def _decimal_arithmetic(operator: str, arguments: list[Any], rows: int, call: Call) -> Any:
    import pyarrow.compute as pc

    from penstock.table.types.arrow_types import arrow_array, arrow_type

    target = arrow_type(call.type)
    if operator in _POSITIVE and operator != "/":
        left, right = (
            a.cast(arrow_type(rules.as_decimal(e.type)))
            for a, e in zip(arguments, call.arguments, strict=True)
        )
        if _fits(operator, left.type, right.type):
            found = getattr(pc, _POSITIVE[operator])(left, right)
            if found.type == target:
                return found
    compute = _DECIMAL_OPERATIONS[operator]
    columns = [column_values(a, rows) for a in arguments]
    with decimal.localcontext(_CONTEXT):
        results = [
            None if a is None or b is None else compute(decimal.Decimal(a), decimal.Decimal(b))
            for a, b in zip(*columns, strict=True)
        ]
    return arrow_array(results, call.type)


def _fits(operator: str, left: Any, right: Any) -> bool:
    """Return whether Arrow computes the result without losing digits."""
    if operator == "*":
        return bool(left.precision + right.precision + 1 <= rules.MAX_PRECISION)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bool(whole + scale + 1 <= rules.MAX_PRECISION)


def _quotient(dividend: decimal.Decimal, divisor: decimal.Decimal) -> decimal.Decimal:
    if not divisor:
        raise ZeroDivisionError
    return dividend / divisor


_DECIMAL_OPERATIONS: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - _quotient(a, b).to_integral_value(decimal.ROUND_DOWN) * b,
}

for _operator in ("+", "-", "*", "/", "%"):
    define(_operator, "any any", INT, _arithmetic_kernel(_operator), bind=arithmetic(_operator))
define("MOD", "num num", INT, bind=arithmetic("%"))
define("PLUS", "any any", INT, bind=arithmetic("+"))
define("MINUS", "any any", INT, bind=arithmetic("-"))


def _simple(name: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del rows, call
        import pyarrow.compute as pc

        return getattr(pc, name)(*arguments)

    return kernel


def _same_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    return arguments[0].type


def _positive(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    return arguments[0]


def _negative(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    kind = arguments[0].type
    is_interval = rules.is_day_interval(kind) or rules.is_month_interval(kind)
    if not (is_interval or rules.is_numeric(kind) or isinstance(kind, types.NullType)):
        raise ValidationException(
            f"Cannot apply '-' to an argument of type <{kind}>: it takes numbers and intervals"
        )
    return Call(_same_type(arguments, options), "NEGATIVE", tuple(arguments))


define("NEGATIVE", "any", _same_type, _simple("negate"), bind=_negative)
define("POSITIVE", "num", "first", bind=_positive)
define("ABS", "num", _same_type, _simple("abs"))


# Rounding -----------------------------------------------------------------------------------------


def _whole_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    kind = arguments[0].type
    if isinstance(kind, types.DecimalType):
        return types.DecimalType(kind.precision, 0, kind.is_nullable)
    return kind


def _toward(name: str, rounding: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow.compute as pc

        from penstock.table.types.arrow_types import arrow_array

        if rules.is_integer(call.type):
            return arguments[0]
        if rules.is_float(call.type):
            return getattr(pc, name)(arguments[0])
        values = [
            None if v is None else v.to_integral_value(rounding)
            for v in column_values(arguments[0], rows)
        ]
        return arrow_array(values, call.type)

    return kernel


def _time_or_number(name: str) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
        value = arguments[0]
        if options:
            from penstock.table.functions.registry import call

            return call(f"{name} TO", value, options=options)
        if not rules.is_numeric(value.type):
            raise ValidationException(f"Cannot apply '{name}' to an argument of <{value.type}>")
        return Call(_whole_type(arguments, ()), name, (value,))

    return bind


define(
    "CEIL|CEILING", "any", INT, _toward("ceil", decimal.ROUND_CEILING), bind=_time_or_number("CEIL")
)
define("FLOOR", "any", INT, _toward("floor", decimal.ROUND_FLOOR), bind=_time_or_number("FLOOR"))


def _round_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    kind = arguments[0].type
    digits = literal_value(arguments[1]) if len(arguments) > 1 else 0
    nullable = any(a.type.is_nullable for a in arguments)
    if isinstance(kind, types.DecimalType):
        if not isinstance(digits, int):
            return kind.with_nullability(nullable)
        return rules.round_type(kind, digits).with_nullability(nullable)
    return kind.with_nullability(nullable)


def _round_half_up(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        return float(_rounded(decimal.Decimal(repr(value)), digits, decimal.ROUND_HALF_UP))
    if isinstance(value, int):
        return int(_rounded(decimal.Decimal(value), digits, decimal.ROUND_HALF_UP))
    return _rounded(value, digits, decimal.ROUND_HALF_UP)


def _truncate(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        return float(_rounded(decimal.Decimal(repr(value)), digits, decimal.ROUND_DOWN))
    if isinstance(value, int):
        return int(_rounded(decimal.Decimal(value), digits, decimal.ROUND_DOWN))
    return _rounded(value, digits, decimal.ROUND_DOWN)


#: More digits than any number has in front of its point.
_MOST_DIGITS = 400


def _rounded(value: decimal.Decimal, digits: int, rounding: str) -> decimal.Decimal:
    last = value.as_tuple().exponent
    assert isinstance(last, int), "numbers that are not finite are not rounded"
    if -digits <= last:
        return value
    # No number has so many digits in front of the point that more would matter.
    exponent = decimal.Decimal(1).scaleb(min(-digits, _MOST_DIGITS))
    with decimal.localcontext(_CONTEXT):
        return value.quantize(exponent, rounding)


def _round_kernel(arguments: list[Any], rows: int, call: Call) -> Any:
    """Round half up; an integer outside of its type wraps around, as in Java."""
    if not isinstance(call.type, types.IntegralType):
        return rowwise(_round_half_up)(arguments, rows, call)
    bound = rules.BOUNDS[type(call.type)]
    wrapped = rowwise(lambda *row: (_round_half_up(*row) + bound) % (2 * bound) - bound)
    return wrapped(arguments, rows, call)


define("ROUND", "num int?", _round_type, _round_kernel)
define("TRUNCATE", "num int?", _round_type, rowwise(_truncate))
define(
    "SIGN",
    "num",
    _same_type,
    rowwise(lambda v: v if v != v else type(v)((v > 0) - (v < 0))),
)


# Powers, logarithms, angles -----------------------------------------------------------------------


def _real(function: Callable[..., float]) -> Any:
    """Return a kernel whose domain errors are NaN or infinite, as in Java."""

    def computed(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return rowwise(computed)


def _log(base_or_value: float, value: float | None = None) -> float:
    if value is None:
        return _ln(base_or_value)
    dividend, divisor = _ln(value), _ln(base_or_value)
    if divisor == 0:
        return math.nan if dividend == 0 else dividend * math.inf
    return dividend / divisor


def _ln(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _log2(value: float) -> float:
    return -math.inf if value == 0 else math.log2(value)


def _log10(value: float) -> float:
    return -math.inf if value == 0 else math.log10(value)


def _power(base: float, exponent: float) -> float:
    is_odd = math.isfinite(exponent) and math.fmod(exponent, 2) in (1, -1)
    is_negative = math.copysign(1, base) < 0 and is_odd
    infinity = -math.inf if is_negative else math.inf
    if base == 0 and exponent < 0:
        return infinity
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return infinity


def _sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


define("POWER", "double double", DOUBLE, _real(_power))
define("SQRT", "double", DOUBLE, _real(math.sqrt))
define("EXP", "double", DOUBLE, _real(math.exp))
define("LN", "double", DOUBLE, _real(_ln))
define("LOG10", "double", DOUBLE, _real(_log10))
define("LOG2", "double", DOUBLE, _real(_log2))
define("LOG", "double double?", DOUBLE, _real(_log))
for _name, _function in {
    "SIN": math.sin, "COS": math.cos, "TAN": math.tan, "ASIN": math.asin, "ACOS": math.acos,
    "ATAN": math.atan, "SINH": _sinh, "COSH": math.cosh, "TANH": math.tanh,
    "DEGREES": math.degrees, "RADIANS": math.radians,
}.items():  # fmt: skip
    define(_name, "double", DOUBLE, _real(_function))
define("COT", "double", DOUBLE, _real(lambda v: 1.0 / math.tan(v) if v else math.inf))
define("ATAN2", "double double", DOUBLE, _real(math.atan2))
define("PI", "", DOUBLE, rowwise(lambda: math.pi))
define("E", "", DOUBLE, rowwise(lambda: math.e))


# Random numbers and representations ---------------------------------------------------------------


class JavaRandom:
    """``java.util.Random``: the linear congruential generator of its documentation."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _next(self, bits: int) -> int:
        self._seed = (self._seed * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        value = self._seed >> (48 - bits)
        return value - (1 << bits) if value >= 1 << (bits - 1) else value

    def next_int(self, bound: int) -> int:
        """Return an integer from 0 to ``bound`` - 1."""
        bits = self._next(31) & 0x7FFFFFFF
        if bound & -bound == bound:
            return (bound * bits) >> 31
        while bits - bits % bound + bound - 1 >= 1 << 31:
            bits = self._next(31) & 0x7FFFFFFF
        return bits % bound

    def next_double(self) -> float:
        """Return a number from 0.0, inclusive, to 1.0, exclusive."""
        high, low = self._next(26) & 0x3FFFFFF, self._next(27) & 0x7FFFFFF
        return ((high << 27) + low) / float(1 << 53)


def _random_kernel(with_seed: int, unseeded: Callable[..., Any], seeded: Callable[..., Any]) -> Any:
    """Return the kernel of a random function.

    As in Flink, a call with a constant seed has a generator of its own, which continues from row to
    row, and a seed that is not a constant has a new one for each row.

    Args:
        with_seed: The number of arguments if the first one is a seed.
        unseeded: Returns a number, given the other arguments.
        seeded: The same, given a generator first.
    """
    unseeded_rows = rowwise(unseeded)
    column_rows = rowwise(lambda seed, *rest: seeded(JavaRandom(seed), *rest))

    def kernel(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
        import pyarrow as pa

        if len(arguments) < with_seed:
            return unseeded_rows(arguments, rows, call)
        seed = arguments[0]
        if isinstance(seed, pa.Array) or not seed.is_valid:
            return column_rows(arguments, rows, call)
        generator = evaluator.generators.get(id(call))
        if generator is None:
            generator = evaluator.generators[id(call)] = JavaRandom(seed.as_py())
        return rowwise(lambda _, *rest: seeded(generator, *rest))(arguments, rows, call)

    kernel.needs_session = True  # type: ignore[attr-defined]
    return kernel


define(
    "RAND", "int?", DOUBLE,
    _random_kernel(1, random.random, lambda generator: generator.next_double()),
    is_deterministic=False,
)  # fmt: skip
define(
    "RAND_INTEGER", "int int?", INT,
    _random_kernel(2, random.randrange, lambda generator, bound: generator.next_int(bound)),
    is_deterministic=False,
)  # fmt: skip
define("BIN", "int", rules.string(), rowwise(lambda v: format(v if v >= 0 else v + (1 << 64), "b")))


def _hex(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex().upper()
    return format(value if value >= 0 else value + (1 << 64), "X")


def _unhex(value: str) -> bytes | None:
    if not set(value) <= _HEX_DIGITS:
        return None
    # As in Flink, the first of an odd number of digits counts as 0.
    return bytes.fromhex(value if len(value) % 2 == 0 else "00" + value[1:])


def _hex_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind = arguments[0].type
    if not rules.is_integer(kind) and not rules.is_text(kind):
        raise ValidationException(f"Cannot apply 'HEX' to an argument of type <{kind}>")
    return Call(rules.string(kind.is_nullable), "HEX", tuple(arguments))


define("HEX", "any", rules.string(), rowwise(_hex), bind=_hex_bind)
define("UNHEX", "text", lambda *_: types.VarBinaryType(rules.MAX_LENGTH), rowwise(_unhex))
