"""Conversion of subqueries in expressions to joins, including correlated ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.table import types
from penstock.table.exceptions import TableException
from penstock.table.functions import registry
from penstock.table.functions.logic import conjunction, make_case, null
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.correlation import as_outer, pulled, reads_outer
from penstock.table.plan.joins import join
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


#: A column that is TRUE in each row of a subquery, and NULL if an outer join found none.
_MARK = types.BooleanType(nullable=False)
_MARKER = "$m"


def joined_subqueries(
    node: Node, expressions: Sequence[Expression], *, are_conditions: bool
) -> tuple[Node, list[Expression]]:
    """Return the node joined with the subqueries of expressions, and the remaining expressions.

    Conditions that consist of EXISTS or IN become semi and anti joins and disappear; elsewhere
    EXISTS and IN become comparisons of numbers of rows.  The positions of the node's columns do
    not change.

    Args:
        node: The rows.
        expressions: Expressions over them.
        are_conditions: Whether the expressions are conditions that filter the rows.

    Raises:
        TableException: A subquery cannot be converted to a join there.
    """
    made = []
    for expression in expressions:
        if not any(isinstance(part, e.Subquery) for part in e.walk(expression)):
            made.append(expression)
            continue
        if not are_conditions:
            node, value = _with_scalars(node, expression)
            made.append(value)
            continue
        rest = []
        for part in e.conjuncts(expression):
            if isinstance(part, e.Subquery) and part.kind != "SCALAR":
                node = _semi_joined(node, part)
            else:
                node, part = _with_scalars(node, part)
                rest.append(part)
        made.append(conjunction(rest))  # type: ignore[arg-type]
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
    """Join the subqueries of an expression, and replace them by their values."""
    expression = e.transform(expression, _counted)
    for part in e.walk(expression):
        if not isinstance(part, e.Subquery):
            continue
        node, value = _with_scalar(node, part)
        expression = _with_value(expression, part, value)
    return node, expression


def _with_scalar(node: Node, subquery: e.Subquery) -> tuple[Node, Expression]:
    """Join one scalar subquery and return the expression of its value over the joined row."""
    width = len(node.schema)
    single = subquery.plan if _is_single(subquery.plan) else _single_value(subquery.plan)
    plan, outputs, conditions = lifted(single)
    defaults = empty_values(single) if conditions else None
    tests = [_joined_condition(condition, width) for condition in conditions]
    names = node.schema.names
    joined = join(node, plan, "LEFT", conjunction(tests))
    value = _joined_condition(outputs[0], width)
    if defaults is not None and not _is_null(defaults[0]):
        # A group without rows does not exist, although its aggregate has a value.
        marker = e.Column(_MARK.nullable(), width + len(plan.schema) - 1, _MARKER)
        value = _or_default(marker, value, _joined_condition(defaults[0], width))
    # Only the value of the subquery remains.
    columns = [*n.columns(joined)[:width], value]
    made = n.project(joined, columns, [*names, f"$s{width}"])
    # A subquery that the query contains is nullable even as a COUNT, as in Flink.
    kind = value.type.with_nullability(value.type.is_nullable or subquery.type.is_nullable)
    return made, e.Column(kind, width, f"$s{width}")


def _or_default(marker: Expression, value: Expression, default: Expression) -> Expression:
    is_missing = registry.call("IS NULL", marker)
    return make_case([is_missing], [default, value])


def _with_value(expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression is old or expression == old:
        return new
    children = expression.children
    if not children:
        return expression
    return expression.with_children(tuple(_with_value(c, old, new) for c in children))


def lifted(plan: Node) -> tuple[Node, list[Expression], list[Expression]]:
    """Remove references to the outer query from a subquery.

    Returns:
        The plan, whose last column is TRUE in each row; the columns of the subquery as expressions
        over it and over the outer query; and the correlated conditions, likewise.

    Raises:
        TableException: A correlation cannot be removed from its operation.
    """
    outputs: list[Expression] = n.columns(plan)
    if isinstance(plan, n.Project) and any(reads_outer(x) for x in plan.expressions):
        outputs = list(plan.expressions)
        plan = plan.input
    inner, conditions = pulled(plan)
    columns = [*n.columns(inner), e.Literal(_MARK, True)]
    return n.project(inner, columns, [*inner.schema.names, _MARKER]), outputs, conditions


def empty_values(plan: Node) -> list[Expression] | None:
    """Return the values of an aggregate without groups for empty input; None for other plans."""
    match plan:
        case n.Project():
            inner = empty_values(plan.input)
            if inner is None:
                return None
            return [e.substituted(x, tuple(inner)) for x in plan.expressions]
        case n.Aggregate() if not plan.keys:
            return [
                e.Literal(call.type, 0)
                if call.function in ("COUNT", "$SUM0")
                else e.Literal(call.type.nullable(), None)
                for call in plan.calls
            ]
    return None


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, e.Literal) and expression.value is None


def _is_single(plan: Node) -> bool:
    """Return whether a query returns at most one row for each value of the outer columns."""
    match plan:
        case n.Project() | n.Filter():
            return _is_single(plan.input)
        case n.Aggregate():
            return not plan.keys
        case n.Values():
            return len(plan.rows) == 1
        case n.Sort() | n.Rank():
            return _has_one_row(plan)
    return False


def _has_one_row(plan: n.Sort | n.Rank) -> bool:
    if isinstance(plan, n.Rank):
        return not plan.partition and plan.last == plan.first
    return plan.limit is not None and plan.limit <= 1


def _single_value(plan: Node) -> Node:
    field = plan.schema.fields[0]
    column = e.Column(field.type, 0, field.name)
    call = e.AggregateCall(field.type.nullable(), "SINGLE_VALUE", (column,), name="SINGLE_VALUE")
    return n.Aggregate(Schema((Field(field.name, call.type),)), plan, (), (call,))


# EXISTS and IN as values --------------------------------------------------------------------------


def _counted(part: Expression) -> Expression:
    """Convert EXISTS and IN to comparisons of numbers of rows; return others unchanged."""
    if not isinstance(part, e.Subquery) or part.kind == "SCALAR":
        return part
    value = _exists(part.plan) if part.kind == "EXISTS" else _is_in(part)
    return registry.call("NOT", value) if part.is_negated else value


def _exists(plan: Node) -> Expression:
    count = _count_of(plan, ())
    return registry.call(">", count, e.Literal(count.type, 0))


def _count_of(plan: Node, arguments: tuple[Expression, ...]) -> Expression:
    kind = types.BigIntType(nullable=False)
    call = e.AggregateCall(kind, "COUNT", arguments, name="COUNT")
    counted = n.Aggregate(Schema((Field("EXPR$0", kind),)), plan, (), (call,))
    return e.Subquery(kind, "SCALAR", counted)


def _is_in(subquery: e.Subquery) -> Expression:
    """Return IN in three-valued logic: NULL if the rows neither contain nor exclude the value."""
    plan = subquery.plan
    tests: list[Expression] = []
    columns = n.columns(plan)
    for argument, column in zip(subquery.arguments, columns, strict=True):
        tests.append(registry.call("=", as_outer(argument), column))
    is_found = _exists(n.filtered(plan, conjunction(tests)))
    nullable = [x for x in (*subquery.arguments, *columns) if x.type.is_nullable]
    if not nullable:
        return is_found
    if len(columns) > 1:
        raise TableException(
            "IN with several values that may be NULL is supported as a condition of its own or "
            "joined by AND, not within OR, CASE or SELECT"
        )
    (argument,), (column,) = subquery.arguments, columns
    conditions, results = [is_found], [e.Literal(types.BooleanType(nullable=False), True)]
    unknown = e.Literal(types.BooleanType(), None)
    if argument.type.is_nullable:
        has_rows = _exists(plan)
        is_null = registry.call("IS NULL", argument)
        conditions.append(registry.call("AND", is_null, has_rows))
        results.append(unknown)
    if column.type.is_nullable:
        has_null = _exists(n.filtered(plan, registry.call("IS NULL", column)))
        conditions.append(has_null)
        results.append(unknown)
    results.append(e.Literal(types.BooleanType(nullable=False), False))
    return make_case(conditions, results)


# LATERAL ------------------------------------------------------------------------------------------


def lateral_joined(node: Node, subquery: Node, kind: n.JoinKind) -> Node:
    """Return each row with the rows that a subquery returns for it.

    Args:
        node: The rows, which are the outer query of the subquery.
        subquery: The subquery.
        kind: INNER or LEFT.

    Raises:
        TableException: A correlation cannot be removed from its operation.
    """
    width = len(node.schema)
    plan, outputs, conditions = lifted(subquery)
    defaults = empty_values(subquery) if conditions else None
    tests = [_joined_condition(condition, width) for condition in conditions]
    joined = join(node, plan, "LEFT" if defaults is not None else kind, conjunction(tests))
    values = [_joined_condition(output, width) for output in outputs]
    marker = e.Column(_MARK.nullable(), width + len(plan.schema) - 1, _MARKER)
    if defaults is not None:
        values = [
            value
            if _is_null(default)
            else _or_default(marker, value, _joined_condition(default, width))
            for value, default in zip(values, defaults, strict=True)
        ]
    elif kind == "LEFT":
        # Other expressions may have a value without a row of the subquery.
        values = [
            value if isinstance(output, e.Column) else _or_default(marker, value, null())
            for output, value in zip(outputs, values, strict=True)
        ]
    columns = [*n.columns(joined)[:width], *values]
    return n.project(joined, columns, [*node.schema.names, *subquery.schema.names])


def _joined_condition(condition: Expression, width: int) -> Expression:
    """Rewrite a condition of a subquery to one over the joined row."""

    def change(part: Expression) -> Expression:
        if isinstance(part, e.Column):
            return replace(part, index=part.index + width)
        if isinstance(part, e.OuterColumn):
            if part.depth > 1:
                return replace(part, depth=part.depth - 1)
            return e.Column(part.type, part.index, part.name)
        return part

    return e.transform(condition, change)
