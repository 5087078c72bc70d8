"""Column pruning: scans do not parse unused columns."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from penstock.table.options.table_options import REUSE_SOURCE, REUSE_SUB_PLAN
from penstock.table.plan import nodes as n
from penstock.table.plan.expressions import Column, columns_of, substituted
from penstock.table.plan.predicates import predicates_of
from penstock.table.plan.rules import optimized
from penstock.table.planning.narrowing import MOST_ROUNDS, Narrowing
from penstock.table.planning.sharing import consumers, separated, shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Pruning:
    """Restricts the scans of plans to the columns that are used.

    A node with several consumers stays a single node, which reads what any of them uses.

    Attributes:
        asked: By ``id`` of each such node, the columns that its consumers use.
    """

    def __init__(
        self, plans: Sequence[Node] = (), used: Mapping[int, frozenset[int]] | None = None
    ) -> None:
        """Count the consumers of each node of the plans of one job.

        Args:
            plans: The plans.
            used: ``asked`` of an earlier round; all columns are used of nodes that it lacks.
        """
        self._consumers = consumers(plans)
        self._used = used or {}
        self.asked: dict[int, frozenset[int]] = {}
        self._done: dict[tuple[int, frozenset[int] | None], tuple[Node, Node]] = {}

    def pruned(self, node: Node, needed: frozenset[int] | None = None) -> Node:
        """Return a plan whose scans read only the used columns.

        Args:
            node: The plan.
            needed: The positions of the used columns; None for all.
        """
        if self._consumers[id(node)] > 1:
            more = frozenset(range(len(node.schema))) if needed is None else needed
            self.asked[id(node)] = self.asked.get(id(node), frozenset()) | more
            needed = self._used.get(id(node))
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


def pruned(
    plans: Sequence[Node], *, is_streaming: bool, settings: Mapping[str, str] = _NO_SETTINGS
) -> list[Node]:
    """Return the optimized plans of one job: equal parts once, without unused columns.

    Args:
        plans: The plans.
        is_streaming: Whether results are updated as input arrives.
        settings: The options of the table configuration.

    Raises:
        TableException: A plan cannot run in this mode.
    """
    plans = [optimized(plan, is_streaming=is_streaming) for plan in plans]
    shares = settings.get(REUSE_SUB_PLAN, "true").lower() == "true"
    shares_scans = shares and settings.get(REUSE_SOURCE, "true").lower() == "true"
    plans = shared(plans) if shares_scans else list(map(separated, plans))
    narrow = Narrowing(plans).narrowed()
    used: dict[int, frozenset[int]] = {}
    for _ in range(MOST_ROUNDS):
        pruning = Pruning(narrow, used)
        found = [pruning.pruned(plan) for plan in narrow]
        if pruning.asked == used:
            break
        used = pruning.asked
    return shared(found, shares_scans=shares_scans) if shares else found


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
