"""Column pruning: scans do not parse unused columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table.plan import nodes as n
from penstock.table.plan.expressions import Column, columns_of, substituted
from penstock.table.plan.predicates import predicates_of

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


class Pruning:
    """Restricts the scans of plans to the columns that are used.

    A node with several consumers stays a single node if they use the same columns of it.
    """

    def __init__(self) -> None:
        self._done: dict[tuple[int, frozenset[int] | None], tuple[Node, Node]] = {}

    def pruned(self, node: Node, needed: frozenset[int] | None = None) -> Node:
        """Return a plan whose scans read only the used columns.

        Args:
            node: The plan.
            needed: The positions of the used columns; None for all.
        """
        key = (id(node), needed)
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = (node, self._made(node, needed))
        return known[1]

    def _made(self, node: Node, needed: frozenset[int] | None) -> Node:
        used: frozenset[int] | None
        match node:
            case n.Scan():
                if needed is None or len(needed) >= len(node.schema):
                    return node
                positions = tuple(sorted(needed))
                source = node.source.with_columns(list(positions))
                return replace(node, source=source, projected=positions)
            case n.Project():
                used = _used(
                    node.expressions
                    if needed is None
                    else [node.expressions[i] for i in sorted(needed)]
                )
                return replace(node, input=self.pruned(node.input, used))
            case n.Filter():
                node = replace(node, input=filtered_scan(node.input, node.condition))
                used = None if needed is None else needed | _used([node.condition])
                return replace(node, input=self.pruned(node.input, used))
            case n.AssignWatermarks():
                used = None
                if needed is not None:
                    used = needed | {node.index} | _used([node.watermark])
                return replace(node, input=self.pruned(node.input, used))
        return self._with_inputs(node)

    def _with_inputs(self, node: Node) -> Node:
        changed: Any = node
        if isinstance(node, n.Union):
            return replace(node, relations=tuple(self.pruned(each) for each in node.relations))
        for name in ("input", "left", "right"):
            child = getattr(node, name, None)
            if isinstance(child, n.Node):
                made = self.pruned(child)
                if made is not child:
                    changed = replace(changed, **{name: made})
        result: Node = changed
        return result


def filtered_scan(node: Node, condition: Expression) -> Node:
    """Return a scan that skips rows which the following filter would drop, if it can.

    If a watermark is between them, the scan is unchanged, because dropped rows advance time.
    """
    match node:
        case n.Scan():
            found = predicates_of(condition, node.schema.names)
            source = node.source.with_predicates(found) if found else None
            if source is None:
                return node
            return replace(node, source=source, predicates=found)
        case n.Project() if all(
            isinstance(node.expressions[i], Column) for i in columns_of(condition)
        ):
            inner = substituted(condition, node.expressions)
            return replace(node, input=filtered_scan(node.input, inner))
    return node


def _used(expressions: Any) -> frozenset[int]:
    return frozenset(i for expression in expressions for i in columns_of(expression))
