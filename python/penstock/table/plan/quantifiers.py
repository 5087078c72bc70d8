"""Comparisons with some or all rows of a subquery: ANY, SOME and ALL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.table import types
from penstock.table.functions import registry
from penstock.table.functions.logic import make_case
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.scopes import fields_of

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node

#: The aggregates that decide a comparison with some rows, and with all rows.
_DECISIVE: Final = {"<": ("MAX", "MIN"), "<=": ("MAX", "MIN"), ">": ("MIN", "MAX"),
                    ">=": ("MIN", "MAX")}  # fmt: skip
COMPARISONS: Final = (*_DECISIVE, "=", "<>")
"""The operators that may precede ANY, SOME and ALL."""


def quantified(operator: str, value: Expression, plan: Node, *, is_all: bool) -> Expression:
    """Return a comparison with some or all rows of a subquery, in three-valued logic.

    The number of rows, the number of their values, and the smallest or largest value decide it, so
    the subquery becomes one aggregate.

    Args:
        operator: ``<``, ``<=``, ``>`` or ``>=``; ``<>`` with some rows; ``=`` with all.
        value: The compared value, over the outer query.
        plan: The subquery, with a single column.
        is_all: Whether all rows must satisfy the comparison.
    """
    names = (_DECISIVE[operator][is_all],) if operator in _DECISIVE else ("MIN", "MAX")
    facts = _facts(plan, names)
    rows, values, *extremes = (fields_of(facts, (name,)) for name in ("n", "v", *names))
    tests = [registry.call(operator, value, extreme) for extreme in extremes]
    joined_by = "AND" if is_all else "OR"
    test = tests[0] if len(tests) == 1 else registry.call(joined_by, *tests)
    unknown = e.Literal(types.BooleanType(), None)
    decided = e.Literal(types.BooleanType(nullable=False), not is_all)
    empty = e.Literal(types.BooleanType(nullable=False), is_all)
    # On a stream, the aggregate has no row until the subquery has one.
    has_rows = registry.call(">", rows, e.Literal(rows.type.not_null(), 0))
    has_no_rows = registry.call("IS NOT TRUE", has_rows)
    is_decided = registry.call("IS FALSE" if is_all else "IS TRUE", test)
    has_null = registry.call(">", rows, values)
    return make_case([has_no_rows, is_decided, has_null], [empty, decided, unknown, test])


def _facts(plan: Node, names: tuple[str, ...]) -> Expression:
    """Return the aggregate of a subquery: numbers of rows and of values, and the extremes."""
    field = plan.schema.fields[0]
    column = e.Column(field.type, 0, field.name)
    count = types.BigIntType(nullable=False)
    calls = (
        e.AggregateCall(count, "COUNT", (), name="COUNT"),
        e.AggregateCall(count, "COUNT", (column,), name="COUNT"),
        *(e.AggregateCall(field.type.nullable(), name, (column,), name=name) for name in names),
    )
    fields = zip(("n", "v", *names), calls, strict=True)
    schema = Schema(tuple(Field(name, call.type) for name, call in fields))
    grouped = n.Aggregate(schema, plan, (), calls)
    kinds = [types.RowField(f.name, f.type) for f in schema.fields]
    row = e.Call(types.RowType(kinds, nullable=False), "ROW", tuple(n.columns(grouped)))
    return e.Subquery(row.type.nullable(), "SCALAR", n.project(grouped, [row], ["$facts"]))
