"""Row kinds of nodes: which of them update or delete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.plan import nodes as n
from penstock.table.plan.schema import is_time_attribute

if TYPE_CHECKING:
    from penstock.table.plan.nodes import Node

_ALL = frozenset((n.INSERT, n.UPDATE_BEFORE, n.UPDATE_AFTER, n.DELETE))
_INSERTS = frozenset((n.INSERT,))


class Changelog:
    """The row kinds of the nodes of a plan.

    Attributes:
        is_streaming: Whether results are updated as input arrives.
    """

    def __init__(self, *, is_streaming: bool) -> None:
        """Create an analysis for an execution mode."""
        self.is_streaming = is_streaming
        self._known: dict[int, tuple[Node, frozenset[int]]] = {}

    def is_updating(self, node: Node) -> bool:
        """Return whether rows of a node may be updated or deleted."""
        return self.kinds(node) != _INSERTS

    def kinds(self, node: Node) -> frozenset[int]:
        """Return the row kinds that a node may emit."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._kinds(node))
        return known[1]

    def _kinds(self, node: Node) -> frozenset[int]:
        if isinstance(node, n.Scan):
            return node.kinds
        if not self.is_streaming:
            return _INSERTS
        inputs: frozenset[int] = frozenset().union(*(self.kinds(i) for i in node.inputs))
        match node:
            case n.Aggregate():
                return self._of_aggregate(node)
            case n.TableAggregate():
                return _ALL
            case n.Rank():
                return _INSERTS if node.bounds is not None else _ALL
            case n.Deduplicate():
                return _ALL if node.keep_last else _INSERTS
            case n.FromChangelog():
                return frozenset(kind for _, kind in node.codes)
            case n.CountWindowAggregate() | n.ToChangelog():
                return _INSERTS
            case n.WindowJoin() | n.IntervalJoin() | n.WindowAggregate() | n.Match():
                return _INSERTS
            case n.TemporalJoin() | n.LookupJoin():
                return self.kinds(node.left)
            case n.Join():
                if node.kind in ("INNER", "SEMI"):
                    return _ALL if inputs != _INSERTS else _INSERTS
                return _ALL
            case n.SetOperation():
                return _ALL
            case n.Over():
                return _INSERTS if orders_by_time(node) else _ALL
            case n.Sort():
                is_limited = node.limit is not None or node.offset > 0
                if not node.order:
                    return inputs if inputs == _INSERTS else _ALL
                return _ALL if is_limited or not orders_sort_by_time(node) else inputs
        return inputs or _INSERTS

    def _of_aggregate(self, node: n.Aggregate) -> frozenset[int]:
        if not node.calls and not self.is_updating(node.input):
            return _INSERTS
        if not self.is_updating(node.input):
            return frozenset((n.INSERT, n.UPDATE_BEFORE, n.UPDATE_AFTER))
        return _ALL


def orders_by_time(node: n.Over) -> bool:
    """Return whether the order of an OVER begins with a time attribute."""
    if not node.order:
        return False
    return is_time_attribute(node.order[0].expression.type)


def orders_sort_by_time(node: n.Sort) -> bool:
    """Return whether the order of a sort begins with an ascending time attribute."""
    if not node.order:
        return False
    first = node.order[0]
    return is_time_attribute(first.expression.type) and not first.descending


_LETTERS = {n.INSERT: "I", n.UPDATE_BEFORE: "UB", n.UPDATE_AFTER: "UA", n.DELETE: "D"}


def kinds_text(kinds: frozenset[int]) -> str:
    """Format row kinds for ``explain`` with CHANGELOG_MODE."""
    return ",".join(_LETTERS[kind] for kind in sorted(kinds))
