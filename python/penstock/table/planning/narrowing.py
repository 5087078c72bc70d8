"""Narrowing: columns that no later node uses are left out of joins, windows and ranks.

Their rows are exchanged and kept in state, which costs as much for a column that nobody reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table.plan import nodes as n
from penstock.table.plan.expressions import columns_of, moved
from penstock.table.plan.rules import with_inputs
from penstock.table.plan.schema import Schema
from penstock.table.planning.sharing import consumers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node

#: Rounds by which the columns of shared nodes become fewer; further ones could still remove some.
MOST_ROUNDS: Final = 4

#: A node, and the new position of each column that it has kept.
_Narrowed = tuple["Node", dict[int, int]]


class Narrowing:
    """Removes unused columns from the plans of one job.

    A node with several consumers stays a single node, with the columns that any of them uses.
    """

    def __init__(self, plans: Sequence[Node]) -> None:
        """Count the consumers of each node of the plans."""
        self._plans = plans
        self._consumers = consumers(plans)
        #: By node with several consumers: the columns that they use; all if it is missing.
        self._used: dict[int, frozenset[int]] = {}
        self._asked: dict[int, frozenset[int]] = {}
        self._done: dict[tuple[int, frozenset[int]], _Narrowed] = {}

    def narrowed(self) -> list[Node]:
        """Return the plans, with the same columns, without unused ones inside."""
        plans = list(self._plans)
        for _ in range(MOST_ROUNDS):
            # What consumers use depends on what theirs use: each round knows more.
            self._asked, self._done = {}, {}
            plans = [self._whole(plan) for plan in self._plans]
            if self._asked == self._used:
                break
            self._used = self._asked
        return plans

    def _whole(self, node: Node) -> Node:
        return self._narrowed(node, frozenset(range(len(node.schema))))[0]

    def _narrowed(self, node: Node, needed: frozenset[int]) -> _Narrowed:
        """Return a node that has at least the needed columns."""
        if self._consumers[id(node)] > 1:
            self._asked[id(node)] = self._asked.get(id(node), frozenset()) | needed
            needed |= self._used.get(id(node), frozenset(range(len(node.schema))))
        key = (id(node), needed)
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = self._made(node, needed)
        return known

    def _made(self, node: Node, needed: frozenset[int]) -> _Narrowed:
        match node:
            case n.Project():
                return self._project(node, needed)
            case n.Filter():
                below, places = self._narrowed(node.input, needed | columns_of(node.condition))
                condition = moved(node.condition, places)
                return replace(node, schema=below.schema, input=below, condition=condition), places
            case n.AssignWatermarks():
                used = needed | {node.index} | columns_of(node.watermark)
                below, places = self._narrowed(node.input, used)
                return _with_schema(
                    node,
                    places,
                    input=below,
                    index=places[node.index],
                    watermark=moved(node.watermark, places),
                ), places
            case n.WindowTableFunction():
                return self._window(node, needed)
            case n.Rank():
                return self._rank(node, needed)
            case n.Join() if not (
                node.is_null_aware or isinstance(node, n.TemporalJoin | n.LookupJoin)
            ):
                return self._join(node, needed)
        return with_inputs(node, self._whole), {i: i for i in range(len(node.schema))}

    def _project(self, node: n.Project, needed: frozenset[int]) -> _Narrowed:
        kept = sorted(needed) or list(range(min(1, len(node.expressions))))
        places = {old: new for new, old in enumerate(kept)}
        expressions = [node.expressions[i] for i in kept]
        below, inner = self._narrowed(node.input, _used(expressions))
        moved_ones = tuple(moved(expression, inner) for expression in expressions)
        return _with_schema(node, places, input=below, expressions=moved_ones), places

    def _window(self, node: n.WindowTableFunction, needed: frozenset[int]) -> _Narrowed:
        width = len(node.input.schema)
        used = {i for i in needed if i < width} | {node.time_index, *node.partition}
        below, places = self._only(node.input, used)
        places = {**places, **{width + i: len(below.schema) + i for i in range(3)}}
        return _with_schema(
            node,
            places,
            input=below,
            time_index=places[node.time_index],
            partition=tuple(places[i] for i in node.partition),
        ), places

    def _rank(self, node: n.Rank, needed: frozenset[int]) -> _Narrowed:
        width = len(node.input.schema)
        used = {i for i in needed if i < width} | {*node.partition, *(node.bounds or ())}
        below, places = self._only(node.input, used | _used(item.expression for item in node.order))
        order = tuple(
            replace(item, expression=moved(item.expression, places)) for item in node.order
        )
        changed: dict[str, Any] = {"input": below, "order": order}
        changed["partition"] = tuple(places[i] for i in node.partition)
        if node.bounds is not None:
            changed["bounds"] = (places[node.bounds[0]], places[node.bounds[1]])
        if node.with_rank:
            places = {**places, width: len(below.schema)}
        return _with_schema(node, places, **changed), places

    def _join(self, node: n.Join, needed: frozenset[int]) -> _Narrowed:
        width = len(node.left.schema)
        used = set(needed)
        if node.condition is not None:
            used |= columns_of(node.condition)
        own = {i for i in used if i < width} | {*node.left_keys}
        others = {i - width for i in used if i >= width} | {*node.right_keys}
        if isinstance(node, n.IntervalJoin):
            own, others = own | {node.left_time}, others | {node.right_time}
        if isinstance(node, n.WindowJoin):
            own, others = own | {*node.left_bounds}, others | {*node.right_bounds}
        left, left_places = self._only(node.left, own)
        right, right_places = self._only(node.right, others)
        start = len(left.schema)
        joined = left_places | {width + i: start + to for i, to in right_places.items()}
        changed: dict[str, Any] = {
            "left": left,
            "right": right,
            "left_keys": tuple(left_places[i] for i in node.left_keys),
            "right_keys": tuple(right_places[i] for i in node.right_keys),
            "condition": None if node.condition is None else moved(node.condition, joined),
        }
        if isinstance(node, n.IntervalJoin):
            changed["left_time"] = left_places[node.left_time]
            changed["right_time"] = right_places[node.right_time]
        if isinstance(node, n.WindowJoin):
            changed["left_bounds"] = tuple(left_places[i] for i in node.left_bounds)
            changed["right_bounds"] = tuple(right_places[i] for i in node.right_bounds)
        places = left_places if node.kind in ("SEMI", "ANTI") else joined
        return _with_schema(node, places, **changed), places

    def _only(self, node: Node, needed: Iterable[int]) -> _Narrowed:
        """Return a node that has the needed columns, and no others if it had more."""
        kept = sorted(needed) or [0]
        made, places = self._narrowed(node, frozenset(kept))
        if len(made.schema) > len(kept):
            columns = n.columns(made)
            names = [made.schema.names[places[i]] for i in kept]
            made = n.project(made, [columns[places[i]] for i in kept], names)
        else:
            kept = sorted(places, key=places.__getitem__)
        return made, {old: new for new, old in enumerate(kept)}


def _used(expressions: Iterable[Expression]) -> frozenset[int]:
    return frozenset(i for expression in expressions for i in columns_of(expression))


def _with_schema(node: Any, places: dict[int, int], **changed: Any) -> Any:
    """Return a node with changed attributes and only some of its columns.

    Args:
        node: The node.
        places: By position of a column that is kept, its new position.
        **changed: The attributes.
    """
    schema: Schema = node.schema
    kept = sorted(places, key=places.__getitem__)
    if kept != list(range(len(schema))):
        key = schema.primary_key
        if key is not None:
            key = tuple(places[i] for i in key) if all(i in places for i in key) else None
        schema = Schema(tuple(schema.fields[i] for i in kept), key)
    return replace(node, schema=schema, **changed)
