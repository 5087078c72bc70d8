"""Rewrite rules: top-N, deduplication, merged projections; and checks for streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException
from penstock.table.functions.evaluation import Session, fold
from penstock.table.functions.logic import conjunction
from penstock.table.functions.registry import table as functions
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import Changelog, orders_by_time, orders_sort_by_time
from penstock.table.plan.schema import Schema
from penstock.table.plan.windows import (
    refuse_uneven_hops,
    window_columns,
    window_function_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_RANKING = ("ROW_NUMBER", "RANK", "DENSE_RANK")


def optimized(node: Node, *, is_streaming: bool) -> Node:
    """Apply the rules to a plan and its inputs.

    Raises:
        TableException: A stream does not support the limit on ranks.
    """
    node = _without_rows(
        with_inputs(node, lambda child: optimized(child, is_streaming=is_streaming))
    )
    if isinstance(node, n.Filter):
        node = _ranked(node, is_streaming=is_streaming)
    if isinstance(node, n.Project):
        node = _merged(node)
    if isinstance(node, n.Project):
        node = _without_unused_rank(node)
    return node


def with_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a node with changed inputs; the node itself if none changed."""
    changed: dict[str, Any] = {}
    for name in ("input", "left", "right"):
        old = getattr(node, name, None)
        if isinstance(old, n.Node):
            new = change(old)
            if new is not old:
                changed[name] = new
    if isinstance(node, n.Union):
        relations = tuple(change(relation) for relation in node.relations)
        if any(new is not old for new, old in zip(relations, node.relations, strict=True)):
            changed["relations"] = relations
    return replace(node, **changed) if changed else node


# Constant conditions ------------------------------------------------------------------------------


def _without_rows(node: Node) -> Node:
    """Replace rows that a constant condition excludes by none, and a global aggregate of none.

    So no table is read, and as in Flink the aggregate has its row also in a stream.
    """
    match node:
        case n.Filter(input=source) if _is_nothing(source) or _is_never_true(node.condition):
            return n.Values(node.schema, ())
        case n.Project(input=source) if _is_nothing(source):
            return n.Values(node.schema, ())
        case n.Aggregate(keys=(), input=source) if _is_nothing(source):
            results = [_result_of_nothing(call) for call in node.calls]
            return node if None in results else n.Values(node.schema, (tuple(results),))
    return node


def _is_nothing(node: Node) -> bool:
    return isinstance(node, n.Values) and not node.rows


def _is_never_true(condition: Expression) -> bool:
    """Return whether a condition without columns is FALSE or NULL, whatever the time zone."""
    zoned = (types.LocalZonedTimestampType, types.DateType, types.TimestampType)
    if any(isinstance(part.type, zoned) for part in e.walk(condition)):
        return False
    value = fold(condition, Session())
    return isinstance(value, e.Literal) and not value.value


def _result_of_nothing(call: e.AggregateCall) -> Any:
    """Return an aggregate of no rows; None if only its accumulator knows it."""
    if call.function == "COUNT":
        return e.Literal(call.type, 0)
    is_null = isinstance(call.function, str) and call.type.is_nullable
    return e.Literal(call.type, None) if is_null else None


# Projections --------------------------------------------------------------------------------------


def _merged(node: n.Project) -> Node:
    """Merge two projections, unless expressions would be computed twice."""
    inner = node.input
    while isinstance(inner, n.Project) and _may_merge(node.expressions, inner.expressions):
        expressions = tuple(e.substituted(x, inner.expressions) for x in node.expressions)
        node = replace(node, input=inner.input, expressions=expressions)
        inner = node.input
    return node


def _may_merge(outer: tuple[Expression, ...], inner: tuple[Expression, ...]) -> bool:
    uses: dict[int, int] = {}
    for expression in outer:
        for part in e.walk(expression):
            if isinstance(part, e.Column):
                uses[part.index] = uses.get(part.index, 0) + 1
    return all(
        isinstance(inner[index], e.Column | e.Literal)
        or (count == 1 and is_deterministic(inner[index]))
        for index, count in uses.items()
    )


def is_deterministic(expression: Expression) -> bool:
    """Return whether an expression has the same value whenever it is computed."""
    for part in e.walk(expression):
        if isinstance(part, e.PythonCall):
            return False
        if isinstance(part, e.Call) and not functions()[part.function].is_deterministic:
            return False
    return True


def _without_unused_rank(node: n.Project) -> Node:
    inner = node.input
    if not isinstance(inner, n.Rank) or not inner.with_rank:
        return node
    place = len(inner.schema) - 1
    if any(place in e.columns_of(x) for x in node.expressions):
        return node
    schema = Schema(inner.schema.fields[:-1])
    return replace(node, input=replace(inner, schema=schema, with_rank=False))


# Top-N --------------------------------------------------------------------------------------------


def _ranked(node: n.Filter, *, is_streaming: bool) -> Node:
    """Convert a filter on row numbers to a rank or a deduplication."""
    project = node.input if isinstance(node.input, n.Project) else None
    over = node.input if project is None else project.input
    if not isinstance(over, n.Over) or len(over.calls) != 1:
        return node
    name = over.calls[0].function
    if name not in _RANKING:
        return node
    place = len(over.schema) - 1
    position: int | None = place
    if project is not None:
        position = next(
            (
                i
                for i, x in enumerate(project.expressions)
                if isinstance(x, e.Column) and x.index == place
            ),
            None,
        )
    if position is None:
        return node
    first, last, rest = _limits(node.condition, position)
    if first == 1 and last is None:
        return node
    if name != "ROW_NUMBER":
        if is_streaming:
            raise TableException(f"{name}() on streaming table is not supported currently")
        return node
    if last is None:
        if is_streaming:
            raise TableException(
                f"Rank end is not specified: the row number has a lower bound {first} only; a "
                "stream needs an upper one, such as rn <= 10"
            )
        return node
    made = _first_rows(over, first, last, is_streaming=is_streaming)
    if project is not None:
        expressions = project.expressions
        if isinstance(made, n.Deduplicate):
            one = e.Literal(types.BigIntType(nullable=False), 1)
            expressions = tuple(one if i == position else x for i, x in enumerate(expressions))
        projected: Node = n.project(made, expressions, project.schema.names)
    elif isinstance(made, n.Deduplicate):
        one = e.Literal(types.BigIntType(nullable=False), 1)
        projected = n.project(made, [*n.columns(made), one], over.schema.names)
    else:
        projected = made
    return n.filtered(projected, conjunction(rest))


def _limits(condition: Expression, position: int) -> tuple[int, int | None, list[Expression]]:
    """Return the first and the last rank that conditions allow, and the other conditions."""
    first, last = 1, None
    rest = []
    for part in e.conjuncts(condition):
        found = _limit(part, position)
        if found is None:
            rest.append(part)
            continue
        operator, value = found
        if operator in (">", ">=", "="):
            first = max(first, value + (operator == ">"))
        if operator in ("<", "<=", "="):
            most = value - (operator == "<")
            last = most if last is None else min(last, most)
    return first, last, rest


def _limit(part: Expression, position: int) -> tuple[str, int] | None:
    if not isinstance(part, e.Call) or part.function not in _FLIPPED:
        return None
    one, other = (_uncast(a) for a in part.arguments)
    operator = part.function
    if isinstance(one, e.Literal):
        one, other, operator = other, one, _FLIPPED[operator]
    if not isinstance(one, e.Column) or one.index != position:
        return None
    if not isinstance(other, e.Literal) or not isinstance(other.value, int):
        return None
    return operator, other.value


def _uncast(expression: Expression) -> Expression:
    while isinstance(expression, e.Cast) and expression.is_implicit:
        expression = expression.argument
    return expression


def _first_rows(over: n.Over, first: int, last: int, *, is_streaming: bool) -> Node:
    window = window_columns(over.input)
    is_of_window = (
        window is not None and window.start in over.partition and window.end in over.partition
    )
    is_inserting = not Changelog(is_streaming=is_streaming).is_updating(over.input)
    by_time = len(over.order) == 1 and orders_by_time(over)
    if is_streaming and by_time and is_inserting and not is_of_window and first == last == 1:
        (item,) = over.order
        assert isinstance(item.expression, e.Column)
        schema = Schema(over.input.schema.fields, over.partition)
        return n.Deduplicate(
            schema, over.input, over.partition, item.expression.index, item.descending
        )
    bounds = None
    if is_streaming and is_of_window and window is not None:
        bounds = (window.start, window.end)
    return n.Rank(
        over.schema, over.input, over.partition, over.order, first, last, True, bounds
    )  # fmt: skip


# Restrictions of streams --------------------------------------------------------------------------


def check(node: Node, *, is_streaming: bool) -> None:
    """Reject plans that Flink does not support on streams.

    Raises:
        TableException: A part of the plan needs all rows before it can emit any.
    """
    for child in node.inputs:
        check(child, is_streaming=is_streaming)
    if not is_streaming:
        return
    if isinstance(node, n.Over):
        _check_over(node)
    if isinstance(node, n.WindowAggregate):
        refuse_uneven_hops(window_function_of(node.input))
    if isinstance(node, n.Sort) and node.order and node.limit is None:
        is_ascending = orders_sort_by_time(node)
        if not is_ascending:
            raise TableException(
                "Sort on a non-time-attribute field is not supported: a stream is ordered by an "
                "ascending time attribute first, or together with LIMIT"
            )


def _check_over(node: n.Over) -> None:
    if not node.order:
        raise TableException(
            "Over Agg: The window must be ordered: OVER needs ORDER BY in a stream"
        )
    names = {call.function for call in node.calls}
    if "LEAD" in names:
        raise TableException("LEAD Function is not supported in stream mode")
    by_time = orders_by_time(node)
    if by_time and node.order[0].descending:
        raise TableException(
            "Over Agg: The window can only be ordered in ASCENDING mode by a time attribute"
        )
    following = node.frame.following
    if following is None or (following and following != 0):
        raise TableException(
            "Over Agg: OVER FOLLOWING windows are not supported yet in a stream: the frame must "
            "end at CURRENT ROW"
        )
