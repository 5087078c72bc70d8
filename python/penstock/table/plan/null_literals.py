"""The places in a statement where Flink refuses a bare NULL, since nothing gives it a type."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from penstock.table.functions import registry
from penstock.table.functions.aggregates import find_aggregate
from penstock.table.sql.trees import Function

_COMPARISONS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In,
    exp.Between,
)  # fmt: skip
_UNTYPED: Final = (
    exp.Select, exp.Values, exp.Group, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe,
    exp.And, exp.Or, exp.Not, exp.Neg, exp.Like, exp.SimilarTo, exp.Escape, exp.Is, exp.Bracket,
    exp.Window,
)  # fmt: skip
#: The built-in functions whose arguments may all be NULL.
_ANY_ARGUMENT: Final = frozenset(
    """
    ARRAY BTRIM COALESCE ENDSWITH GREATEST IFNULL INET_ATON INET_NTOA JSON_ARRAY JSON_ARRAYAGG
    JSON_QUOTE JSON_STRING JSON_UNQUOTE LEAST PRINTF REGEXP_COUNT REGEXP_EXTRACT_ALL
    REGEXP_INSTR REGEXP_SUBSTR SPLIT STARTSWITH TYPEOF UNHEX URL_DECODE URL_ENCODE
    """.split()  # noqa: SIM905 - the lines read better than many quotes
)
#: The built-in functions whose arguments but for the first may be NULL.
_LATER_ARGUMENTS: Final = frozenset(
    """
    ARRAY_APPEND ARRAY_CONTAINS ARRAY_JOIN ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_SLICE
    ARRAY_SORT ELT JSON_OBJECT JSON_OBJECTAGG MAP NULLIF
    """.split()  # noqa: SIM905
)


def has_type(tree: exp.Null) -> bool:
    """Return whether the place of a bare NULL gives it a type."""
    inner: Any = tree
    outer = tree.parent
    while isinstance(outer, exp.Paren | exp.Alias | exp.Distinct):
        inner, outer = outer, outer.parent
    if isinstance(outer, exp.Tuple):
        return isinstance(outer.parent, _COMPARISONS)
    if isinstance(outer, exp.Is):
        return isinstance(outer.expression, exp.Null)
    if isinstance(outer, exp.Ordered):
        order = outer.parent
        return order is None or not isinstance(order.parent, exp.Window)
    if isinstance(outer, Function | exp.Anonymous):
        return _is_typed_argument(outer, inner)
    return not isinstance(outer, _UNTYPED)


def _is_typed_argument(call: Function | exp.Anonymous, argument: Any) -> bool:
    name = (call.this if isinstance(call.this, str) else call.this.name).upper()
    if name in _ANY_ARGUMENT:
        return True
    if name in _LATER_ARGUMENTS:
        return argument is not call.expressions[0]
    return registry.find(name) is None and find_aggregate(name) is None
