"""Window joins with the least or greatest value of the joined rows themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock.table import types
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n

if TYPE_CHECKING:
    from penstock.table.plan.nodes import Node

_Origin: TypeAlias = tuple["Node", int]


class WindowExtreme(NamedTuple):
    """The rows of the left side of a join that may have a partner.

    Attributes:
        keys: The positions of the columns that make a group, window_end among them.
        value: The position of the column that must be the extreme of its group.
        is_max: Whether the largest value is the extreme.
    """

    keys: tuple[int, ...]
    value: int
    is_max: bool


def window_extreme(node: n.WindowJoin) -> WindowExtreme | None:
    """Return which left rows may have a partner, if the right rows are extremes of the left ones.

    The right side must be a MIN or MAX of a column of the same rows, grouped by the window and by
    columns that the join equates.  A left row that is not the extreme of some rows of its group is
    not that of all, and so has no partner.

    Returns:
        None if the join is another one.
    """
    aggregate, places = _aggregate(node.right)
    if node.kind not in ("INNER", "RIGHT", "SEMI") or aggregate is None:
        return None
    given = aggregate.input
    #: By column of the rows of the aggregate: the left column that equals it.
    equated: dict[int, int] = {}
    extremes: list[tuple[int, e.AggregateCall]] = []
    for left, right in zip(node.left_keys, node.right_keys, strict=True):
        place = places[right]
        if place is None:
            continue
        if place < len(aggregate.keys):
            key = aggregate.keys[place]
            if _are_same(_origin(node.left, left), _origin(given, key)):
                equated[key] = left
        elif place < len(aggregate.keys) + len(aggregate.calls):
            extremes.append((left, aggregate.calls[place - len(aggregate.keys)]))
    assert aggregate.bounds is not None
    start, end = aggregate.bounds
    if not {*aggregate.keys, end} - {aggregate.time_index} <= equated.keys():
        return None
    # The end of a window tells its start.
    keys = tuple(left for key, left in equated.items() if key != start)
    for left, call in extremes:
        if not _is_extreme(call):
            continue
        argument: Any = call.arguments[0]
        if _are_same(_origin(node.left, left), _origin(given, argument.index)):
            return WindowExtreme(keys, left, call.function == "MAX")
    return None


def _aggregate(node: Node) -> tuple[n.WindowAggregate | None, tuple[int | None, ...]]:
    """Return the aggregate below projections, and by column its position there, None if computed.

    Aggregates of sessions are left out: the end of one is known when it has ended.
    """
    places: tuple[int | None, ...] = tuple(range(len(node.schema)))
    while isinstance(node, n.Project):
        given = [x.index if isinstance(x, e.Column) else None for x in node.expressions]
        places = tuple(None if place is None else given[place] for place in places)
        node = node.input
    if not isinstance(node, n.WindowAggregate) or node.bounds is None:
        return None, places
    rows = _origin(node.input, node.bounds[1])
    if rows is None or not isinstance(rows[0], n.WindowTableFunction):
        return None, places
    return (None if rows[0].window.kind == "SESSION" else node), places


def _origin(node: Node, position: int) -> _Origin | None:
    """Return the node below projections and the position of a column there; None if computed."""
    while isinstance(node, n.Project):
        expression = node.expressions[position]
        if not isinstance(expression, e.Column):
            return None
        node, position = node.input, expression.index
    return node, position


def _are_same(one: _Origin | None, other: _Origin | None) -> bool:
    """Return whether two columns are one.  An equal node reads its rows a second time."""
    if one is None or other is None:
        return False
    return one[0] is other[0] and one[1] == other[1]


def _is_extreme(call: e.AggregateCall) -> bool:
    return (
        call.function in ("MIN", "MAX")
        and call.condition is None
        and len(call.arguments) == 1
        and isinstance(call.arguments[0].type, types.IntegralType)
    )
