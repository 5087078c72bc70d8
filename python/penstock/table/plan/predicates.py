"""Conditions that a scan can check without reading rows: comparisons of a column with constants."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.plan import expressions as e

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression

_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
#: The types of columns that are compared with constants of a Python type.  Floats are excluded: a
#: bound does not rule out NaN.
_KINDS: Final[dict[type, tuple[type, ...]]] = {
    int: (types.IntegralType,),
    str: (types.CharType, types.VarCharType),
    datetime.date: (types.DateType,),
    datetime.datetime: (types.TimestampType,),
}


@dataclass(frozen=True)
class Predicate:
    """Comparison of a column with constants; NULL does not satisfy it.

    Attributes:
        column: The name of the column.
        operator: ``=``, ``<``, ``<=``, ``>``, ``>=`` or ``IN``.
        values: The constants, one unless the operator is IN.
    """

    column: str
    operator: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        shown = ", ".join(repr(value) for value in self.values)
        return f"{self.column} {self.operator} {f'({shown})' if self.operator == 'IN' else shown}"

    def may_hold(self, low: Any, high: Any) -> bool:
        """Return whether a value between two bounds may satisfy it; True if not comparable."""
        if type(low) is not type(self.values[0]) or type(high) is not type(low):
            return True
        try:
            return self._may_hold(low, high)
        except TypeError:  # times with and without a zone
            return True

    def _may_hold(self, low: Any, high: Any) -> bool:
        first = self.values[0]
        match self.operator:
            case "<":
                return bool(low < first)
            case "<=":
                return bool(low <= first)
            case ">":
                return bool(high > first)
            case ">=":
                return bool(high >= first)
        return any(low <= value <= high for value in self.values)


def predicates_of(condition: Expression, names: Sequence[str]) -> tuple[Predicate, ...]:
    """Return the parts of a condition that are predicates on columns with these names."""
    found = []
    for part in e.conjuncts(condition):
        made = _predicate(part, names)
        if made is not None:
            found.append(made)
    return tuple(found)


def _predicate(part: Expression, names: Sequence[str]) -> Predicate | None:
    if not isinstance(part, e.Call):
        return None
    if part.function == "OR":
        return _choice([_predicate(argument, names) for argument in part.arguments])
    arguments = [_uncast(argument) for argument in part.arguments]
    operator = part.function
    if operator in _FLIPPED and isinstance(arguments[0], e.Literal):
        arguments.reverse()
        operator = _FLIPPED[operator]
    if operator not in _FLIPPED or not isinstance(arguments[0], e.Column):
        return None
    values = [a.value for a in arguments[1:] if isinstance(a, e.Literal)]
    if len(values) < len(arguments) - 1 or not values:
        return None
    (*kinds,) = {type(value) for value in values}
    if len(kinds) > 1 or not isinstance(arguments[0].type, _KINDS.get(kinds[0], ())):
        return None
    return Predicate(names[arguments[0].index], operator, tuple(values))


def _choice(parts: Sequence[Predicate | None]) -> Predicate | None:
    """Combine equalities of one column, such as those of IN, to one predicate."""
    found = [part for part in parts if part is not None and part.operator in ("=", "IN")]
    if len(found) < len(parts) or len({part.column for part in found}) != 1:
        return None
    values = tuple(value for part in found for value in part.values)
    if len({type(value) for value in values}) != 1:
        return None
    return Predicate(found[0].column, "IN", values)


def _uncast(expression: Expression) -> Expression:
    while isinstance(expression, e.Cast) and expression.is_implicit:
        expression = expression.argument
    return expression
