"""Subqueries of expressions become joins, correlated ones too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.table import types
from penstock.table.errors import TableException
from penstock.table.functions import registry
from penstock.table.functions.logic import conjunction
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.joins import join
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.context import PlanningContext
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


def joined_subqueries(
    node: Node, expressions: Sequence[Expression], context: PlanningContext
) -> tuple[Node, list[Expression]]:
    """Return the node joined with the subqueries of expressions, and what is left of those.

    Conditions that are EXISTS or IN alone become semi and anti joins and leave nothing; the
    columns of the node stay where they are.

    Raises:
        TableException: A subquery stands where it cannot become a join.
    """
    made = []
    for expression in expressions:
        if not any(isinstance(part, e.Subquery) for part in e.walk(expression)):
            made.append(expression)
            continue
        rest = []
        for part in e.conjuncts(expression):
            if isinstance(part, e.Subquery) and part.kind != "SCALAR":
                node = _semi_joined(node, part)
            else:
                node, part = _with_scalars(node, part)
                rest.append(part)
        made.append(conjunction(rest))  # type: ignore[arg-type]
    del context
    return node, made


def _semi_joined(node: Node, subquery: e.Subquery) -> Node:
    width = len(node.schema)
    plan, conditions = pulled(subquery.plan)
    tests = [_joined_condition(condition, width) for condition in conditions]
    for position, argument in enumerate(subquery.arguments):
        field = plan.schema.fields[position]
        column = e.Column(field.type, width + position, field.name)
        tests.append(registry.call("=", argument, column))
    kind: n.JoinKind = "ANTI" if subquery.is_negated else "SEMI"
    is_null_aware = subquery.is_negated and subquery.kind == "IN"
    return join(node, plan, kind, conjunction(tests), is_null_aware=is_null_aware)


def _with_scalars(node: Node, expression: Expression) -> tuple[Node, Expression]:
    """Join the scalar subqueries of an expression and replace them by their columns."""
    for part in e.walk(expression):
        if not isinstance(part, e.Subquery):
            continue
        if part.kind != "SCALAR":
            raise TableException(
                f"{part.kind} with a subquery is supported as a condition of WHERE or HAVING of "
                "its own or joined by AND, not within OR, CASE or SELECT"
            )
        width = len(node.schema)
        plan, conditions = pulled(part.plan)
        if not _is_single(part.plan):
            plan = _single_value(plan, bool(conditions))
        tests = [_joined_condition(condition, width) for condition in conditions]
        names = node.schema.names
        joined = join(node, plan, "LEFT", conjunction(tests))
        # Of the subquery only its value stays.
        columns = n.columns(joined)[: width + 1]
        node = n.project(joined, columns, [*names, f"$s{width}"])
        value: Expression = e.Column(part.type, width, f"$s{width}")
        if conditions and _is_count(part.plan):
            zero = e.Literal(types.BigIntType(nullable=False), 0)
            value = registry.call("COALESCE", value, zero)
        expression = _with_value(expression, part, value)
    return node, expression


def _with_value(expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression is old or expression == old:
        return new
    children = expression.children
    if not children:
        return expression
    return expression.with_children(tuple(_with_value(c, old, new) for c in children))


def _is_single(plan: Node) -> bool:
    """Return whether a query gives one row at most, for each value of the outer columns."""
    match plan:
        case n.Project():
            return _is_single(plan.input)
        case n.Aggregate():
            return not plan.keys
        case n.Values():
            return len(plan.rows) == 1
        case n.Sort():
            return plan.limit is not None and plan.limit <= 1
    return False


def _is_count(plan: Node) -> bool:
    while isinstance(plan, n.Project):
        first = plan.expressions[0]
        if not isinstance(first, e.Column):
            return False
        plan = plan.input
    return isinstance(plan, n.Aggregate) and any(c.function == "COUNT" for c in plan.calls)


def _single_value(plan: Node, has_conditions: bool) -> Node:
    if has_conditions:
        raise TableException(
            "A correlated scalar subquery must be an aggregate without GROUP BY, so that it gives "
            "one value"
        )
    field = plan.schema.fields[0]
    column = e.Column(field.type, 0, field.name)
    call = e.AggregateCall(field.type.nullable(), "SINGLE_VALUE", (column,), name="SINGLE_VALUE")
    return n.Aggregate(Schema((Field(field.name, call.type),)), plan, (), (call,))


def _joined_condition(condition: Expression, width: int) -> Expression:
    """Return a condition of a subquery as one over the joined row."""

    def change(part: Expression) -> Expression:
        if isinstance(part, e.Column):
            return replace(part, index=part.index + width)
        if isinstance(part, e.OuterColumn):
            if part.depth > 1:
                return replace(part, depth=part.depth - 1)
            return e.Column(part.type, part.index, part.name)
        return part

    return e.transform(condition, change)


# Correlation --------------------------------------------------------------------------------------


def is_correlated(node: Node) -> bool:
    """Return whether a node or one of its inputs reads columns of an enclosing query."""
    return any(_reads_outer(x) for x in _expressions_of(node)) or any(
        is_correlated(child) for child in node.inputs
    )


def _reads_outer(expression: Expression) -> bool:
    return any(isinstance(part, e.OuterColumn) for part in e.walk(expression))


def _expressions_of(node: Node) -> list[Expression]:
    match node:
        case n.Project():
            return list(node.expressions)
        case n.Filter():
            return [node.condition]
        case n.Join():
            return [] if node.condition is None else [node.condition]
        case n.Correlate():
            return list(node.arguments)
        case n.Values():
            return [x for row in node.rows for x in row]
    return []


def pulled(node: Node) -> tuple[Node, list[Expression]]:
    """Return a subquery without its correlated conditions, and those over its columns.

    Columns that only the conditions need are appended.

    Raises:
        TableException: A correlation cannot be taken out of its operation.
    """
    if not is_correlated(node):
        return node, []
    match node:
        case n.Filter():
            inner, conditions = pulled(node.input)
            own = e.conjuncts(node.condition)
            kept = [part for part in own if not _reads_outer(part)]
            conditions = [*conditions, *(part for part in own if _reads_outer(part))]
            return n.filtered(inner, conjunction(kept)), conditions
        case n.Project():
            return _pulled_project(node)
        case n.Aggregate():
            return _pulled_aggregate(node)
        case n.Join() if node.kind == "INNER":
            return _pulled_join(node)
        case n.Sort() if not node.order and node.limit is None:
            return pulled(node.input)
    raise TableException(
        f"A subquery that reads columns of its outer query within {node.describe()} is not "
        "supported"
    )


def _pulled_project(node: n.Project) -> tuple[Node, list[Expression]]:
    if any(_reads_outer(x) for x in node.expressions):
        raise TableException("A subquery that selects columns of its outer query is not supported")
    inner, conditions = pulled(node.input)
    columns: list[Expression] = list(node.expressions)
    names = list(node.schema.names)
    places: dict[int, int] = {}
    for condition in conditions:
        for position in sorted(e.columns_of(condition)):
            if position in places:
                continue
            field = inner.schema.fields[position]
            column = e.Column(field.type, position, field.name)
            if column in columns:
                places[position] = columns.index(column)
                continue
            places[position] = len(columns)
            columns.append(column)
            names.append(f"$c{len(names)}")
    return n.project(inner, columns, names), [e.moved(c, places) for c in conditions]


def _pulled_aggregate(node: n.Aggregate) -> tuple[Node, list[Expression]]:
    inner, conditions = pulled(node.input)
    needed: list[int] = []
    for condition in conditions:
        is_equality = isinstance(condition, e.Call) and condition.function in (
            "=",
            "IS NOT DISTINCT FROM",
        )
        if not is_equality:
            raise TableException(
                "A correlated subquery with an aggregate is supported for equalities, not for "
                f"'{condition}'"
            )
        needed.extend(i for i in sorted(e.columns_of(condition)) if i not in needed)
    extra = [i for i in needed if i not in node.keys]
    keys = (*node.keys, *extra)
    fields = inner.schema.fields
    own = node.schema.fields
    count = len(node.keys)
    schema = Schema(
        (*own[:count], *(fields[i] for i in extra), *own[count:]), tuple(range(len(keys)))
    )
    grouped = n.Aggregate(schema, inner, keys, node.calls)
    # The node's columns first, then those that the conditions need.
    order = [*range(count), *range(len(keys), len(schema)), *range(count, len(keys))]
    columns = n.columns(grouped)
    names = [*node.schema.names, *(f"$c{i}" for i in range(len(extra)))]
    made = n.project(grouped, [columns[i] for i in order], names)
    places = {}
    for position in needed:
        if position in node.keys:
            places[position] = node.keys.index(position)
        else:
            places[position] = len(own) + extra.index(position)
    return made, [e.moved(c, places) for c in conditions]


def _pulled_join(node: n.Join) -> tuple[Node, list[Expression]]:
    left, left_conditions = pulled(node.left)
    right, right_conditions = pulled(node.right)
    width, other = len(node.left.schema), len(node.right.schema)
    new_width = len(left.schema)
    places = {i: i for i in range(width)} | {width + i: new_width + i for i in range(other)}
    own = [e.moved(part, places) for part in e.conjuncts(node.condition)]
    kept = [part for part in own if not _reads_outer(part)]
    conditions = [
        *left_conditions,
        *(e.shifted(c, new_width) for c in right_conditions),
        *(part for part in own if _reads_outer(part)),
    ]
    joined = n.Join(
        n.joined_schema(left, right, "INNER"), left, right, "INNER", node.left_keys,
        node.right_keys, conjunction(kept),
    )  # fmt: skip
    # The node's columns first, as its consumers expect.
    first = [*range(width), *range(new_width, new_width + other)]
    rest = [i for i in range(len(joined.schema)) if i not in first]
    order = [*first, *rest]
    columns = n.columns(joined)
    made = n.project(
        joined,
        [columns[i] for i in order],
        [*node.schema.names, *(f"$c{i}" for i in range(len(rest)))],
    )
    moved = {old: new for new, old in enumerate(order)}
    return made, [e.moved(c, moved) for c in conditions]
