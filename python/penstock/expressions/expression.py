"""Expression: the class of ``field("price") * 2``."""

from __future__ import annotations

import datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from penstock.common.typeinfo import TypeInformation, as_type_information
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.errors import InvalidProgramError
from penstock.expressions import nodes as n
from penstock.expressions.checking import kind_of

if TYPE_CHECKING:
    from builtins import str as Text
    from collections.abc import Callable, Iterable

    from typing_extensions import TypeVar

    from penstock.expressions.string_functions import StringFunctions
    from penstock.expressions.time_functions import TimeFunctions

    #: The values, as far as operators and declared types tell.
    VALUE = TypeVar("VALUE", covariant=True, default=Any)
    #: The values of a declared type.
    OUT = TypeVar("OUT", default=Any)
else:
    from typing import TypeVar

    VALUE = TypeVar("VALUE", covariant=True)

#: Classes of values that may stand for themselves in an expression.
_LITERAL_CLASSES = (
    bool,
    int,
    float,
    Decimal,
    str,
    bytes,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    type(None),
)

#: The functions that convert to a type.
_CASTS = {
    "integer": "to_integer",
    "float": "to_float",
    "string": "to_string",
    "boolean": "to_boolean",
}


def as_node(value: Any) -> n.Node:
    """Return the node of an operand: an expression or a constant.

    Raises:
        InvalidProgramError: The argument is neither.
    """
    if isinstance(value, Expression):
        return value.node
    if type(value) in _LITERAL_CLASSES or isinstance(value, Enum):
        return n.Literal(value)
    raise InvalidProgramError(
        "an expression takes expressions, numbers, texts, bytes, booleans, dates, times, "
        f"timedeltas, members of enums and None, not {value!r}"
    )


class Expression(Generic[VALUE]):
    """A value computed from the records of a stream.

    Operators combine expressions, as in ``field("price") * 2 > 100``.  ``&``, ``|`` and ``~``
    combine conditions; comparisons, arithmetic and their errors are those of Python.  An expression
    is accepted wherever a function is.
    """

    __slots__ = ("node",)

    def __init__(self, node: n.Node) -> None:
        """Use `field`, `element`, `lit` and the functions beside them."""
        self.node = node

    if not TYPE_CHECKING:  # for type checkers, an expression has no other attributes

        def __getattr__(self, name: Text) -> Any:
            """Explain how to read a field of a field.

            Raises:
                AttributeError: Always.
            """
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; for the field "
                f"{name!r} of this value write .field({name!r})"
            )

    # Arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _binary("%", other, self)

    def __pow__(self, other: Any) -> Expression:
        return _binary("**", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return _binary("**", other, self)

    def __neg__(self) -> Expression:
        return Expression(n.Negative(self.node))

    def __abs__(self) -> Expression:
        return _call("abs", self)

    # Comparisons ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression[bool]:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Expression[bool]:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Any) -> Expression[bool]:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Expression[bool]:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Expression[bool]:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Expression[bool]:
        return _binary(">=", self, other)

    __hash__ = object.__hash__

    def is_null(self) -> Expression[bool]:
        """Return whether the value is None."""
        return Expression(n.IsNull(self.node, negated=False))

    def is_not_null(self) -> Expression[bool]:
        """Return whether the value is not None."""
        return Expression(n.IsNull(self.node, negated=True))

    def is_in(self, values: Iterable[Any]) -> Expression[bool]:
        """Return whether the value equals one of some values.

        Args:
            values: Numbers, texts, bytes, booleans, dates, times, members of enums and None.
        """
        kept = tuple(values)
        for value in kept:
            if not isinstance(as_node(value), n.Literal):
                raise InvalidProgramError(f"is_in takes values, not expressions: {value}")
        return Expression(n.IsIn(self.node, kept))

    def between(self, lower: Any, upper: Any) -> Expression[bool]:
        """Return whether the value is at least ``lower`` and at most ``upper``."""
        not_below, not_above = _binary(">=", self, lower), _binary("<=", self, upper)
        return not_below & not_above

    # Conditions -------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Expression[bool]:
        return Expression(n.Logical("and", self.node, as_node(other)))

    def __rand__(self, other: Any) -> Expression[bool]:
        return Expression(n.Logical("and", as_node(other), self.node))

    def __or__(self, other: Any) -> Expression[bool]:
        return Expression(n.Logical("or", self.node, as_node(other)))

    def __ror__(self, other: Any) -> Expression[bool]:
        return Expression(n.Logical("or", as_node(other), self.node))

    def __invert__(self) -> Expression[bool]:
        return Expression(n.Not(self.node))

    def __bool__(self) -> bool:
        raise InvalidProgramError(
            f"{self} has no truth value while the program is built: join conditions by & | ~ "
            "instead of and, or, not; use between() instead of a < b < c, is_in() instead of in, "
            "and when() instead of if"
        )

    # Parts ------------------------------------------------------------------------------------

    def field(
        self, key: int | Text, type_info: TypeInformation[OUT] | None = None
    ) -> Expression[OUT]:
        """Return a field of the value; see the function `field`."""
        return Expression(n.Field(self.node, _key(key), _declared(type_info)))

    def __getitem__(self, key: int | Text) -> Expression:
        return self.field(key)

    __iter__ = None
    __contains__ = None

    def cast(self, type_info: TypeInformation[OUT]) -> Expression[OUT]:
        """Convert the value to another type: an integer, a float, a text or a boolean.

        The result and the errors are those of Python's ``int``, ``float``, ``str`` and ``bool``.

        Raises:
            InvalidProgramError: Values cannot be converted to that type.
        """
        function = _CASTS.get(kind_of(_declared(type_info)))
        if function is None:
            raise InvalidProgramError(
                f"cast() makes integers, floats, texts and booleans, not {type_info}"
            )
        return _call(function, self)

    def round(self, digits: int | None = None) -> Expression:
        """Return the value rounded as Python's ``round`` does; an integer without ``digits``."""
        return _call("round", self) if digits is None else _call("round", self, digits)

    def floor(self) -> Expression[int]:
        """Return the greatest integer that does not exceed the value."""
        return _call("floor", self)

    def ceil(self) -> Expression[int]:
        """Return the smallest integer that is not below the value."""
        return _call("ceil", self)

    def sqrt(self) -> Expression[float]:
        """Return the square root."""
        return _call("sqrt", self)

    def exp(self) -> Expression[float]:
        """Return e to the power of the value."""
        return _call("exp", self)

    def ln(self) -> Expression[float]:
        """Return the natural logarithm."""
        return _call("ln", self)

    def log10(self) -> Expression[float]:
        """Return the logarithm to base 10."""
        return _call("log10", self)

    @property
    def str(self) -> StringFunctions:
        """Functions of texts."""
        from penstock.expressions.string_functions import StringFunctions

        return StringFunctions(self)

    @property
    def dt(self) -> TimeFunctions:
        """Functions of times."""
        from penstock.expressions.time_functions import TimeFunctions

        return TimeFunctions(self)

    # As a function ----------------------------------------------------------------------------

    def __call__(self, *arguments: Any) -> VALUE:
        """Return the value for a record, or for all the arguments of a function."""
        from penstock.expressions.checking import check
        from penstock.expressions.source import function_of

        node, _ = check(self.node, [None] * len(arguments))
        value: VALUE = function_of(node, len(arguments), None)(*arguments)
        return value

    def __timestamp_assigner__(self) -> TimestampAssigner:
        """Return this expression as a `TimestampAssigner`."""
        return ExpressionAssigner(self)

    def __repr__(self) -> Text:
        return f"{self.node}"


class ExpressionAssigner(TimestampAssigner):
    """Timestamps records by an expression.

    Attributes:
        expression: The expression, or the function created from it.
    """

    def __init__(self, expression: Callable[..., Any]) -> None:
        """Store the expression; the function of a checked one replaces the method."""
        self.expression = expression
        function = getattr(expression, "function", None)
        if function is not None:
            vars(self)["extract_timestamp"] = function

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the expression alone."""
        return ExpressionAssigner, (self.expression,)

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the timestamp of a record in ms since the epoch."""
        timestamp: int = self.expression(value, record_timestamp)
        return timestamp


def _binary(operator: str, left: Any, right: Any) -> Expression:
    return Expression(n.Binary(operator, as_node(left), as_node(right)))


def _call(function: str, *operands: Any) -> Expression:
    return Expression(n.Call(function, tuple(map(as_node, operands))))


def _key(key: Any) -> int | str:
    if type(key) is int or type(key) is str:
        return key
    raise InvalidProgramError(f"a field has a name or a position, not {key!r}")


def _declared(type_info: TypeInformation | None) -> TypeInformation | None:
    return None if type_info is None else as_type_information(type_info, "an expression")
