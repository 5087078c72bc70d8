"""Rows that are already where an exchange by key would send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.plan import nodes as n
from penstock.table.plan.expressions import Column

if TYPE_CHECKING:
    from penstock.table.plan.nodes import Node


def exchanged_by(node: Node) -> list[tuple[int, ...]]:
    """Return the columns of a streaming node's rows, in order, by which they were exchanged.

    The subtask that emits a row is the one to which an exchange by these columns would send it.
    """
    match node:
        case n.Filter():
            return exchanged_by(node.input)
        case n.Project():
            places = {
                expression.index: place
                for place, expression in reversed(list(enumerate(node.expressions)))
                if isinstance(expression, Column)
            }
            found = exchanged_by(node.input)
            kept = [keys for keys in found if places.keys() >= set(keys)]
            return [tuple(places[key] for key in keys) for keys in kept]
        case n.Aggregate():
            return [tuple(range(len(node.keys)))]
        case n.Deduplicate():
            return [node.keys]
        case n.Rank():
            return [node.partition]
        case n.Join() if not isinstance(node, n.LookupJoin) and not node.is_null_aware:
            return _of_join(node)
    return []


def _of_join(node: n.Join) -> list[tuple[int, ...]]:
    """Return the keys of the sides whose rows are never replaced by NULLs."""
    found = []
    if node.kind in ("INNER", "LEFT", "SEMI", "ANTI"):
        found.append(node.left_keys)
    if node.kind in ("INNER", "RIGHT"):
        found.append(tuple(len(node.left.schema) + key for key in node.right_keys))
    return found
