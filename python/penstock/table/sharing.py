"""Sharing: equal parts of the plans of a job run once."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from penstock.table.plan import nodes as n
from penstock.table.plan.rules import is_deterministic, with_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.table.plan.nodes import Node

#: Nodes whose equal attributes mean equal rows.
_SHARED: Final = (
    n.Scan,
    n.Project,
    n.Filter,
    n.AssignWatermarks,
    n.WindowTableFunction,
    n.WindowAggregate,
    n.Aggregate,
)


class Sharing:
    """Makes equal nodes of plans the same node."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Node, Node]] = {}
        self._known: dict[Any, Node] = {}

    def shared(self, node: Node) -> Node:
        """Return a plan in which nodes that equal others are these."""
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = (node, self._unique(with_inputs(node, self.shared)))
        return known[1]

    def _unique(self, node: Node) -> Node:
        if not isinstance(node, _SHARED) or not _is_repeatable(node):
            return node
        key = (type(node), node.describe(), *map(_part, _attributes(node)))
        try:
            return self._known.setdefault(key, node)
        except TypeError:  # a constant of a type without a hash
            return node


def _attributes(node: Node) -> list[Any]:
    names = [field.name for field in fields(node)]
    if isinstance(node, n.Scan) and node.origin is not None:
        names.remove("source")
    return [getattr(node, name) for name in names]


def _part(value: Any) -> Any:
    """Return an attribute for a comparison; inputs are the same node if they are equal."""
    return id(value) if isinstance(value, n.Node) else value


def _is_repeatable(node: Node) -> bool:
    match node:
        case n.Project():
            return all(map(is_deterministic, node.expressions))
        case n.Filter():
            return is_deterministic(node.condition)
        case n.Aggregate() | n.WindowAggregate():
            return all(isinstance(call.function, str) for call in node.calls)
    return True


def consumers(plans: Iterable[Node]) -> Counter[int]:
    """Return the number of consumers of each node of plans, by ``id``."""
    found: Counter[int] = Counter()
    seen: set[int] = set()
    pending: list[Node] = list(plans)
    while pending:
        node = pending.pop()
        found[id(node)] += 1
        if id(node) not in seen:
            seen.add(id(node))
            pending += node.inputs
    return found


def shared(plans: Sequence[Node]) -> list[Node]:
    """Return the plans of one job, whose equal parts are the same nodes."""
    sharing = Sharing()
    return [sharing.shared(plan) for plan in plans]
