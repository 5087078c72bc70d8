"""Correlation: references from subqueries to their outer query, and decorrelation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.table.exceptions import TableException
from penstock.table.functions import registry
from penstock.table.functions.logic import conjunction
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.rules import with_inputs
from penstock.table.plan.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


def is_correlated(node: Node) -> bool:
    """Return whether a node or one of its inputs reads columns of an enclosing query."""
    return any(reads_outer(x) for x in _expressions_of(node)) or any(
        is_correlated(child) for child in node.inputs
    )


def reads_outer(expression: Expression) -> bool:
    """Return whether an expression reads columns of an enclosing query."""
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
            return [*node.arguments, *filter(None, [node.condition])]
        case n.Values():
            return [x for row in node.rows for x in row]
    return []


def pulled(node: Node) -> tuple[Node, list[Expression]]:
    """Return a subquery without its correlated conditions, and the conditions over its columns.

    Columns that only the conditions read are appended.

    Raises:
        TableException: A correlation cannot be removed from its operation.
    """
    if not is_correlated(node):
        return node, []
    match node:
        case n.Filter():
            inner, conditions = pulled(node.input)
            own = [part for whole in e.conjuncts(node.condition) for part in _factors(whole)]
            kept = [part for part in own if not reads_outer(part)]
            conditions = [*conditions, *(part for part in own if reads_outer(part))]
            return n.filtered(inner, conjunction(kept)), conditions
        case n.Project():
            return _pulled_project(node)
        case n.Aggregate():
            return _pulled_aggregate(node)
        case n.Join() if node.kind == "INNER":
            return _pulled_join(node)
        case n.Sort() if node.limit is not None and node.order:
            return _pulled_sort(node)
        case n.Sort() if node.limit is None and not node.offset:
            return pulled(node.input)
        case n.AssignWatermarks():
            return pulled(node.input)
    raise TableException(
        f"A subquery that reads columns of its outer query within {node.describe()} is not "
        "supported"
    )


def _factors(condition: Expression) -> list[Expression]:
    """Return the conditions that AND combines, after taking common ones out of an OR."""
    if not isinstance(condition, e.Call) or condition.function != "OR":
        return [condition]
    choices = [
        [part for whole in e.conjuncts(choice) for part in _factors(whole)]
        for choice in condition.arguments
    ]
    common = [part for part in choices[0] if all(part in choice for choice in choices[1:])]
    if not common:
        return [condition]
    rests = [conjunction([p for p in choice if p not in common]) for choice in choices]
    left = [rest for rest in rests if rest is not None]
    return [*common, registry.call("OR", *left)] if len(left) == len(rests) else common


def _pulled_project(node: n.Project) -> tuple[Node, list[Expression]]:
    if any(reads_outer(x) for x in node.expressions):
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


def _pulled_sort(node: n.Sort) -> tuple[Node, list[Expression]]:
    """Return the first rows for each value of the columns compared with the outer query."""
    assert node.limit is not None
    inner, conditions = pulled(node.input)
    partition = _compared(conditions, "ORDER BY and LIMIT")
    made = n.Rank(
        inner.schema, inner, tuple(partition), node.order, node.offset + 1,
        node.offset + node.limit, False,
    )  # fmt: skip
    return made, conditions


def _compared(conditions: Sequence[Expression], what: str) -> list[int]:
    """Return the columns that equalities compare with the outer query.

    Raises:
        TableException: A condition is not an equality.
    """
    needed: list[int] = []
    for condition in conditions:
        is_equality = isinstance(condition, e.Call) and condition.function in (
            "=",
            "IS NOT DISTINCT FROM",
        )
        if not is_equality:
            raise TableException(
                f"A correlated subquery with {what} is supported for equalities, not for "
                f"'{condition}'"
            )
        needed.extend(i for i in sorted(e.columns_of(condition)) if i not in needed)
    return needed


def _pulled_aggregate(node: n.Aggregate) -> tuple[Node, list[Expression]]:
    inner, conditions = pulled(node.input)
    needed = _compared(conditions, "an aggregate")
    extra = [i for i in needed if i not in node.keys]
    keys = (*node.keys, *extra)
    fields = inner.schema.fields
    own = node.schema.fields
    count = len(node.keys)
    schema = Schema(
        (*own[:count], *(fields[i] for i in extra), *own[count:]), tuple(range(len(keys)))
    )
    grouped = n.Aggregate(schema, inner, keys, node.calls)
    # The node's columns first, then those that the conditions read.
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
    kept = [part for part in own if not reads_outer(part)]
    conditions = [
        *left_conditions,
        *(e.shifted(c, new_width) for c in right_conditions),
        *(part for part in own if reads_outer(part)),
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


def as_outer(expression: Expression) -> Expression:
    """Convert an expression of a query to the view of its subquery."""

    def change(part: Expression) -> Expression:
        if isinstance(part, e.Column):
            return e.OuterColumn(part.type, part.index, part.name)
        if isinstance(part, e.OuterColumn):
            return replace(part, depth=part.depth + 1)
        return part

    return e.transform(expression, change)


def with_outer(node: Node, change: Callable[[e.OuterColumn], Expression]) -> Node:
    """Replace the columns of the outer query in a subquery.

    Args:
        node: The subquery.
        change: Returns the expression, over the outer query, for such a column.
    """

    def changed(part: Expression) -> Expression:
        if isinstance(part, e.OuterColumn) and part.depth == 1:
            return as_outer(change(part))
        return part

    def expression(x: Expression) -> Expression:
        return e.transform(x, changed)

    if not is_correlated(node):
        return node
    node = with_inputs(node, lambda child: with_outer(child, change))
    match node:
        case n.Project():
            return replace(node, expressions=tuple(map(expression, node.expressions)))
        case n.Filter():
            return replace(node, condition=expression(node.condition))
        case n.Join() if node.condition is not None:
            return replace(node, condition=expression(node.condition))
        case n.Correlate():
            condition = None if node.condition is None else expression(node.condition)
            arguments = tuple(map(expression, node.arguments))
            return replace(node, arguments=arguments, condition=condition)
        case n.Values():
            rows = tuple(tuple(map(expression, row)) for row in node.rows)
            return replace(node, rows=rows)
    return node
