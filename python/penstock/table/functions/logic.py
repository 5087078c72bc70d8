"""Comparisons, three-valued logic, conditions on texts, and choices."""

from __future__ import annotations

import decimal
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import column_values, define, rowwise
from penstock.table.plan.expressions import Call, Case, Cast, Expression, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.types import DataType

BOOLEAN = types.BooleanType()
_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def cast_to(argument: Expression, data_type: DataType) -> Expression:
    """Cast the argument to a type, with the argument's nullability."""
    target = data_type.with_nullability(
        argument.type.is_nullable or isinstance(argument.type, types.NullType)
    )
    if argument.type == target:
        return argument
    return Cast(target, argument, is_implicit=True)


def unified(arguments: Sequence[Expression], what: str) -> tuple[DataType, list[Expression]]:
    """Return the common type of arguments, and the arguments cast to it.

    Raises:
        ValidationException: They have no common type.
    """
    kinds = [a.type for a in arguments]
    found = rules.common_type(kinds)
    if found is None or (what in _UNMIXED and rules.are_mixed(kinds)):
        shown = ", ".join(f"<{a.type}>" for a in arguments)
        raise ValidationException(f"The arguments of {what} have no common type: {shown}; use CAST")
    return found, [cast_to(a, found) for a in arguments]


#: The expressions that need a cast between dates and timestamps.
_UNMIXED = ("CASE", "ARRAY", "MAP")
#: The comparisons that need an order.
_ORDERED = ("<", "<=", ">", ">=")


def compared(left: Expression, right: Expression, what: str) -> list[Expression]:
    """Return two arguments cast so that they can be compared.

    Raises:
        ValidationException: Their types cannot be compared.
    """
    for one, other in ((left, right), (right, left)):
        if rules.is_text(one.type) and rules.is_temporal(other.type):
            made = cast_to(one, other.type)
            return [made, other] if one is left else [other, made]
    is_ordered = what in _ORDERED
    if not rules.can_compare(left.type, right.type, is_ordered=is_ordered):
        raise ValidationException(
            f"Cannot apply '{what}' to arguments of type '<{left.type}> {what} <{right.type}>': "
            "values of these types cannot be compared, use CAST"
        )
    if rules.is_text(left.type) and rules.is_text(right.type):
        return [left, right]
    return unified([left, right], what)[1]


def _comparison(operator: str) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        left, right = arguments
        if all(isinstance(value.type, types.NullType) for value in arguments):
            return null(BOOLEAN)
        if operator == "=" and _are_rows_of_values(left, right):
            return _fields_equal(left.children, right.children, bind)
        if operator not in ("=", "<>"):
            left, right = _as_number(left, right), _as_number(right, left)
        left, right = compared(left, right, operator)
        nullable = _any_null(arguments)
        return Call(BOOLEAN.with_nullability(nullable), operator, (left, right))

    return bind


def _are_rows_of_values(left: Expression, right: Expression) -> bool:
    return (
        isinstance(left, Call)
        and isinstance(right, Call)
        and left.function == right.function == "ROW"
        and len(left.arguments) == len(right.arguments) > 0
    )


def _fields_equal(
    left: Sequence[Expression], right: Sequence[Expression], equal: Callable[..., Expression]
) -> Expression:
    """Compare rows field by field, as Flink does: the result is NULL if it depends on a NULL."""
    found = conjunction([equal([a, b], ()) for a, b in zip(left, right, strict=True)])
    assert found is not None
    return found


def _as_number(value: Expression, other: Expression) -> Expression:
    """Cast a text that is ordered before or after a number, as Calcite does."""
    if not (rules.is_text(value.type) and rules.is_numeric(other.type)):
        return value
    kind = rules.common_type([other.type, types.BigIntType()])
    assert kind is not None
    return cast_to(value, kind)


def _compare(operator: str) -> Any:
    name = _COMPARISONS[operator]
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b,
        "<>": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    by_row = rowwise(tests[operator])

    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_nested(arguments[0].type):
            return by_row(arguments, rows, call)
        return getattr(pc, name)(*arguments)

    return kernel


for _operator in _COMPARISONS:
    define(_operator, "any any", BOOLEAN, _compare(_operator), bind=_comparison(_operator))


def _any_null(arguments: Sequence[Expression]) -> bool:
    return any(a.type.is_nullable for a in arguments)


# Three-valued logic -------------------------------------------------------------------------------


def _compute(name: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del rows, call
        import pyarrow.compute as pc

        result = arguments[0]
        for argument in arguments[1:]:
            result = getattr(pc, name)(result, argument)
        return result if len(arguments) > 1 else getattr(pc, name)(result)

    return kernel


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """Return the AND of conditions; None without any."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return Call(BOOLEAN.with_nullability(_any_null(parts)), "AND", tuple(parts))


define("AND", "bool bool*", BOOLEAN, _compute("and_kleene"))
define("OR", "bool bool*", BOOLEAN, _compute("or_kleene"))
define("NOT", "bool", BOOLEAN, _compute("invert"))


def _is(wanted: bool | None, negated: bool) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del rows, call
        import pyarrow.compute as pc

        value = arguments[0]
        if wanted is None:
            return pc.is_valid(value) if negated else pc.is_null(value)
        test = value if wanted else pc.invert(value)
        test = pc.fill_null(test, False)
        return pc.invert(test) if negated else test

    return kernel


_NEVER_NULL = lambda *_: types.BooleanType(nullable=False)  # noqa: E731
define("IS NULL|IS UNKNOWN", "any", _NEVER_NULL, _is(None, False))
define("IS NOT NULL|IS NOT UNKNOWN", "any", _NEVER_NULL, _is(None, True))
define("IS TRUE", "bool", _NEVER_NULL, _is(True, False))
define("IS NOT TRUE", "bool", _NEVER_NULL, _is(True, True))
define("IS FALSE", "bool", _NEVER_NULL, _is(False, False))
define("IS NOT FALSE", "bool", _NEVER_NULL, _is(False, True))


def _distinct(negated: bool) -> Any:
    by_row = rowwise(lambda a, b: (a == b) if negated else (a != b), takes_nulls=True)

    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        left, right = arguments
        if pa.types.is_nested(left.type) or pa.types.is_null(left.type):
            return by_row(arguments, rows, call)
        same = pc.fill_null(pc.equal(left, right), False)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        same = pc.or_(same, both_null)
        return same if negated else pc.invert(same)

    return kernel


def _distinct_bind(name: str) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        pair = compared(arguments[0], arguments[1], name)
        return Call(types.BooleanType(nullable=False), name, tuple(pair))

    return bind


for _name, _negated in (("IS DISTINCT FROM", False), ("IS NOT DISTINCT FROM", True)):
    define(_name, "any any", BOOLEAN, _distinct(_negated), bind=_distinct_bind(_name))


# IN and BETWEEN -----------------------------------------------------------------------------------


def _in(negated: bool) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        value, *choices = arguments
        tests = [_equals(value, choice) for choice in choices]
        nullable = _any_null(tests)
        found = tests[0]
        if len(tests) > 1:
            found = Call(BOOLEAN.with_nullability(nullable), "OR", tuple(tests))
        return Call(found.type, "NOT", (found,)) if negated else found

    return bind


def _equals(value: Expression, choice: Expression) -> Expression:
    """Compare a value with one of a list; unlike with ``=``, texts become numbers."""
    if _are_rows_of_values(value, choice):
        return _fields_equal(
            value.children, choice.children, lambda pair, _: _equals(pair[0], pair[1])
        )
    if rules.is_text(choice.type) and rules.is_numeric(value.type):
        choice = cast_to(choice, value.type)
    elif rules.is_text(value.type) and rules.is_numeric(choice.type):
        value = cast_to(value, choice.type)
    return _comparison("=")([value, choice], ())


def _between(negated: bool) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
        value, low, high = arguments

        def within(least: Expression, most: Expression) -> Expression:
            found = conjunction(
                [_comparison(">=")([value, least], ()), _comparison("<=")([value, most], ())]
            )
            assert found is not None
            return found

        found = within(low, high)
        if options and options[0] == "SYMMETRIC":
            other = within(high, low)
            nullable = _any_null([found, other])
            found = Call(BOOLEAN.with_nullability(nullable), "OR", (found, other))
        return Call(found.type, "NOT", (found,)) if negated else found

    return bind


define("IN", "any any any*", BOOLEAN, bind=_in(False))
define("NOT IN", "any any any*", BOOLEAN, bind=_in(True))
define("BETWEEN", "any any any", BOOLEAN, bind=_between(False))
define("NOT BETWEEN", "any any any", BOOLEAN, bind=_between(True))


# Patterns -----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None = None) -> str:
    """Convert a LIKE pattern to a regular expression.

    Raises:
        ValueError: The escape character is not followed by ``%``, ``_`` or itself.
    """
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in ("%", "_", escape):
                raise ValueError(f"Invalid escape sequence in LIKE pattern {pattern!r}")
            parts.append(re.escape(following))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re.escape(character))
    return "".join(parts)


@lru_cache(maxsize=256)
def similar_pattern(pattern: str, escape: str | None = None) -> str:
    """Convert a SIMILAR TO pattern to a regular expression."""
    parts, characters, in_set = [], iter(pattern), False
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, "")))
        elif in_set:
            in_set = character != "]"
            parts.append(character)
        elif character == "[":
            in_set = True
            parts.append(character)
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        elif character in "\\^$":  # A point stands for any character, as in Calcite.
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join(parts)


def _matches(translate: Callable[..., str], negated: bool) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del call
        import pyarrow as pa
        import pyarrow.compute as pc

        value, pattern = arguments[:2]
        escape = arguments[2].as_py() if len(arguments) > 2 else None
        if not isinstance(pattern, pa.Scalar):
            patterns = column_values(pattern, rows)
            found = pa.array(
                [
                    None
                    if text is None or p is None
                    else re.fullmatch(translate(p, escape), text, re.DOTALL) is not None
                    for text, p in zip(column_values(value, rows), patterns, strict=True)
                ],
                pa.bool_(),
            )
        elif pattern.as_py() is None:
            return pa.scalar(None, pa.bool_())
        else:
            expression = f"(?s)^(?:{translate(pattern.as_py(), escape)})$"
            # Python's $ also matches before a final line end; RE2's does not.
            found = pc.match_substring_regex(value, expression)
        return pc.invert(found) if negated else found

    return kernel


define("LIKE", "text text text?", BOOLEAN, _matches(like_pattern, False))
define("NOT LIKE", "text text text?", BOOLEAN, _matches(like_pattern, True))
define("SIMILAR TO", "text text text?", BOOLEAN, _matches(similar_pattern, False))
define("NOT SIMILAR TO", "text text text?", BOOLEAN, _matches(similar_pattern, True))


# Choices ------------------------------------------------------------------------------------------


def make_case(
    conditions: Sequence[Expression], results: Sequence[Expression], *, is_nullable: bool = False
) -> Expression:
    """Return CASE with its results cast to their common type."""
    kind, cast = unified(results, "CASE")
    nullable = is_nullable or any(
        r.type.is_nullable or isinstance(r.type, types.NullType) for r in results
    )
    return Case(kind.with_nullability(nullable), tuple(conditions), tuple(cast))


def null(data_type: DataType | None = None) -> Expression:
    """Return NULL."""
    return Literal(types.NullType() if data_type is None else data_type.nullable(), None)


def _if(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    condition, yes, no = arguments
    return make_case([condition], [yes, no], is_nullable=condition.type.is_nullable)


def _if_then_else(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    """Bind the Table API's condition, whose result is NULL only if a branch is."""
    condition, yes, no = arguments
    return make_case([condition], [yes, no])


def _nullif(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    value, other = arguments
    return make_case([_comparison("=")([value, other], ())], [null(value.type), value])


def _coalesce(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind, cast = unified(arguments, "COALESCE")
    nullable = all(a.type.is_nullable or isinstance(a.type, types.NullType) for a in arguments)
    *rest, last = cast
    tests = [Call(types.BooleanType(nullable=False), "IS NOT NULL", (a,)) for a in rest]
    if not rest:
        return last
    return Case(kind.with_nullability(nullable), tuple(tests), tuple(cast))


def _extreme(name: str) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        kind, cast = unified(arguments, name)
        return Call(kind, name, tuple(cast))

    return bind


def _element_wise(name: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del rows, call
        import pyarrow.compute as pc

        return getattr(pc, name)(*arguments, skip_nulls=False)

    return kernel


define("IF", "bool any any", BOOLEAN, bind=_if)
define("IF THEN ELSE", "bool any any", BOOLEAN, bind=_if_then_else)
define("NULLIF", "any any", BOOLEAN, bind=_nullif)
define("COALESCE", "any any*", BOOLEAN, bind=_coalesce)
define("IFNULL", "any any", BOOLEAN, bind=_coalesce)
define(
    "GREATEST", "any any*", BOOLEAN, _element_wise("max_element_wise"), bind=_extreme("GREATEST")
)
define("LEAST", "any any*", BOOLEAN, _element_wise("min_element_wise"), bind=_extreme("LEAST"))


# Kinds of values ----------------------------------------------------------------------------------

_NUMBER: Final = re.compile(
    r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*", re.ASCII
)


def _typeof(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    """Return the type of an argument as a text; the long form does not abbreviate.

    Raises:
        ValidationException: The argument that selects the long form is not a constant.
    """
    kind, choices = arguments[0].type, arguments[1:]
    if any(not isinstance(choice, Literal) for choice in choices):
        raise ValidationException("TYPEOF takes TRUE or FALSE as its second argument")
    is_long = any(choice.value for choice in choices if isinstance(choice, Literal))
    text = rules.serializable(kind) if is_long else str(kind)
    return Literal(rules.string(), text)


define("TYPEOF", "any bool?", rules.string(), bind=_typeof)
_TRUTH: Final = types.BooleanType(nullable=False)
define("IS_ALPHA", "any", lambda *_: _TRUTH, rowwise(
    lambda v: isinstance(v, str) and v.isalpha(), takes_nulls=True))  # fmt: skip
define("IS_DIGIT", "any", lambda *_: _TRUTH, rowwise(
    lambda v: v.isdigit() if isinstance(v, str) else isinstance(v, int), takes_nulls=True,
))  # fmt: skip
define("IS_DECIMAL", "any", lambda *_: _TRUTH, rowwise(
    lambda v: _NUMBER.fullmatch(v) is not None if isinstance(v, str)
    else isinstance(v, int | float | decimal.Decimal),
    takes_nulls=True,
))  # fmt: skip
