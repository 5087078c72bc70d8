"""Sharing: equal parts of the plans of a job run once."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from penstock.table.functions.registry import table as functions
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.rules import with_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.table.plan.nodes import Node


class Sharing:
    """Makes equal nodes of plans the same node.

    Args:
        shares_scans: Whether equal scans become one scan even if the nodes that read them differ.
    """

    def __init__(self, *, shares_scans: bool = True) -> None:
        self._shares_scans = shares_scans
        self._done: dict[int, tuple[Node, Node]] = {}
        self._known: dict[Any, Node] = {}
        #: By ``id`` of a node: the first node that equals it.
        self._first: dict[int, Node] = {}

    def shared(self, node: Node) -> Node:
        """Return a plan in which nodes that equal others are these."""
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = (node, self._unique(with_inputs(node, self.shared)))
        return known[1]

    def _unique(self, node: Node) -> Node:
        if not _is_repeatable(node):
            return node
        key = (type(node), node.describe(), *map(self._part, _attributes(node)))
        try:
            first = self._known.setdefault(key, node)
        except TypeError:  # a constant of a type without a hash
            return node
        if isinstance(node, n.Scan) and not self._shares_scans:
            self._first[id(node)] = first
            return node
        return first

    def _part(self, value: Any) -> Any:
        """Return an attribute for a comparison; inputs are the same node if they are equal."""
        if isinstance(value, n.Node):
            return id(self._first.get(id(value), value))
        return tuple(map(self._part, value)) if isinstance(value, tuple) else value


def _attributes(node: Node) -> list[Any]:
    names = [field.name for field in fields(node)]
    if isinstance(node, n.Scan) and node.origin is not None:
        names.remove("source")
    return [getattr(node, name) for name in names]


def _is_repeatable(node: Node) -> bool:
    """Return whether a node that runs again with the same inputs emits the same rows."""
    if isinstance(node, n.Match | n.Sink):
        return False
    if isinstance(node, n.Correlate) and not _is_function_repeatable(node.function):
        return False
    return all(map(_is_expression_repeatable, _expressions(_attributes(node))))


def _expressions(value: Any) -> Iterator[e.Expression]:
    """Yield the expressions in the attributes of a node."""
    if isinstance(value, e.Expression):
        yield value
    elif isinstance(value, e.OrderItem):
        yield value.expression
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _expressions(each)


def _is_expression_repeatable(expression: e.Expression) -> bool:
    """Return whether an expression has the same value each time, as its functions declare."""
    for part in e.walk(expression):
        match part:
            case e.PythonCall() | e.AggregateCall():
                if not _is_function_repeatable(part.function):
                    return False
            case e.Call():
                if not functions()[part.function].is_deterministic:
                    return False
    return True


def _is_function_repeatable(function: Any) -> bool:
    return isinstance(function, str) or bool(function.is_deterministic)


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


def shared(plans: Sequence[Node], *, shares_scans: bool = True) -> list[Node]:
    """Return the plans of one job, whose equal parts are the same nodes; see `Sharing`."""
    sharing = Sharing(shares_scans=shares_scans)
    return [sharing.shared(plan) for plan in plans]


def separated(node: Node) -> Node:
    """Return a plan in which each node has one consumer."""
    return replace(with_inputs(node, separated))
