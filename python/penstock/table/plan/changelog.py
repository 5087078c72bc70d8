"""Row kinds of nodes: which of them update or delete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.plan import nodes as n
from penstock.table.plan.schema import is_time_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.table.plan.nodes import Node

_ALL = frozenset((n.INSERT, n.UPDATE_BEFORE, n.UPDATE_AFTER, n.DELETE))
_INSERTS = frozenset((n.INSERT,))
#: The nodes whose operators can leave out UPDATE_BEFORE; projections pass on what they get.
_LEAVE_OUT = (n.Scan, n.Aggregate, n.Rank, n.Deduplicate)
#: The nodes of a query without an insertion that ``explain`` shows without UPDATE_BEFORE.
_SHOWN_WITHOUT = (*_LEAVE_OUT, n.Join, n.SetOperation, n.Sort, n.Over)


class Changelog:
    """The row kinds of the nodes of a plan.

    Attributes:
        is_streaming: Whether results are updated as input arrives.
    """

    def __init__(self, *, is_streaming: bool, new_rows_only: Iterable[Node] = ()) -> None:
        """Create an analysis.

        Args:
            is_streaming: See the attribute.
            new_rows_only: The nodes that leave out UPDATE_BEFORE; see the function of this name.
        """
        self.is_streaming = is_streaming
        self._new_rows_only = {id(node): node for node in new_rows_only}
        self._known: dict[int, tuple[Node, frozenset[int]]] = {}

    def is_updating(self, node: Node) -> bool:
        """Return whether rows of a node may be updated or deleted."""
        return self.kinds(node) != _INSERTS

    def kinds(self, node: Node) -> frozenset[int]:
        """Return the row kinds that a node may emit."""
        known = self._known.get(id(node))
        if known is None:
            kinds = self._kinds(node)
            # A source keeps the old row of an update that changes its key.
            if self.has_new_rows_only(node) and not isinstance(node, n.Scan):
                kinds -= {n.UPDATE_BEFORE}
            known = self._known[id(node)] = (node, kinds)
        return known[1]

    def has_new_rows_only(self, node: Node) -> bool:
        """Return whether a node leaves out UPDATE_BEFORE because no consumer reads such rows."""
        return id(node) in self._new_rows_only

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


def shown_with_new_rows_only(query: Node) -> list[Node]:
    """Return the nodes that ``explain`` shows without UPDATE_BEFORE, as Flink does for a query.

    A job that collects the result has such rows.
    """
    return new_rows_only([(query, False)], _SHOWN_WITHOUT)


def new_rows_only(
    plans: Iterable[tuple[Node, bool]], leave_out: tuple[type[Node], ...] = _LEAVE_OUT
) -> list[Node]:
    """Return the nodes that leave out UPDATE_BEFORE, since no consumer reads such rows.

    Args:
        plans: All plans of a job, and for each whether rows of that kind of its result are read.
        leave_out: The types of nodes that can leave them out.
    """
    read: dict[int, Node] = {}
    unread: dict[int, Node] = {}
    left = list(plans)
    while left:
        node, is_read = left.pop()
        found = read if is_read else unread
        if id(node) in found:
            continue
        found[id(node)] = node
        # A filter may pass the old row of an update and drop the new one: it is a deletion then.
        is_read |= not isinstance(node, n.Project) or isinstance(node.input, n.Filter)
        left += ((child, is_read) for child in node.inputs)
    return [node for key, node in unread.items() if key not in read and isinstance(node, leave_out)]


def unread_by_tables(insertions: Iterable[tuple[n.Sink, Node]]) -> list[Node]:
    """Return the nodes of a job that leave out UPDATE_BEFORE, since no table reads such rows.

    Args:
        insertions: All insertions of the job, each with the plan of its rows.
    """
    return new_rows_only((rows, _reads_old_rows(sink, rows)) for sink, rows in insertions)


def _reads_old_rows(sink: n.Sink, rows: Node) -> bool:
    """Return whether a table reads UPDATE_BEFORE, or the operator that brings its rows to its key.

    Args:
        sink: The insertion.
        rows: The plan of the rows.
    """
    key = sink.sink.upsert_key
    if n.UPDATE_BEFORE in sink.kinds:
        return True
    return bool(key) and (
        set(rows.schema.primary_key or ()) != set(key) or sink.sink.parallelism is not None
    )


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
