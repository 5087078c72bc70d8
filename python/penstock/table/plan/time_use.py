"""Use of event time in plans: how exactly batches must be split at watermarks."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import orders_by_time, orders_sort_by_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.table.plan.nodes import Node

#: Local times differ from UTC by whole seconds, as do the windows of local time.
_ZONE_MS = 1_000


def time_grain(nodes: Iterable[Node]) -> int | None:
    """Return the granularity in ms at which late rows change a result of plans.

    Returns:
        0 if no operator uses event time; None if every time matters.
    """
    grain = 0
    for node in _reached(nodes):
        if isinstance(node, n.WindowTableFunction) and node.window.kind != "SESSION":
            window = node.window
            time = node.input.schema.fields[node.time_index]
            zone_ms = _ZONE_MS if isinstance(time.type, types.LocalZonedTimestampType) else 0
            grain = gcd(grain, window.slide_ms, window.size_ms, window.offset_ms, zone_ms)
        elif _is_exact(node):
            return None
    return grain


def splits_equal_times(nodes: Iterable[Node]) -> bool:
    """Return whether rows of one time may be late for the watermark of the first of them.

    Plans whose only use of event time is windows take all rows of one time together.
    """
    return any(
        _is_exact(node) and not isinstance(node, n.WindowTableFunction) for node in _reached(nodes)
    )


def reads_watermarks(nodes: Iterable[Node]) -> bool:
    """Return whether a query reads the watermark by CURRENT_WATERMARK."""
    return any(map(_shows_watermark, _reached(nodes)))


def _reached(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes of plans, each once."""
    seen: set[int] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            pending.extend(node.inputs)
            yield node


def _is_exact(node: Node) -> bool:
    match node:
        case n.WindowTableFunction() | n.IntervalJoin() | n.TemporalJoin() | n.Match():
            return True
        case n.Over():
            return orders_by_time(node)
        case n.Sort():
            return orders_sort_by_time(node)
        case n.Deduplicate():
            return node.input.schema.fields[node.time_index].is_rowtime
    return _shows_watermark(node)


def _shows_watermark(node: Node) -> bool:
    expressions: Iterable[Any] = ()
    if isinstance(node, n.Project):
        expressions = node.expressions
    elif isinstance(node, n.Filter):
        expressions = (node.condition,)
    return any(
        isinstance(part, e.Call) and part.function == "CURRENT_WATERMARK"
        for expression in expressions
        for part in e.walk(expression)
    )
