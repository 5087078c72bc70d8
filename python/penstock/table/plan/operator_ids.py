"""Ids of operators from the plan, so that state fits a statement that is planned again.

The uid of an operator is its line of the plan and a digest of all that its state depends on: its
node and those below, but for conditions of filters and times to live, which state does not show.
A statement that is planned again gives the same uids, whatever stands beside it in its job; one
that groups, joins or computes otherwise gives others, so that restoring is refused, and the uids
tell what differs.
"""

from __future__ import annotations

from dataclasses import fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from penstock.graph.transformations import PhysicalTransformation, reserve_id
from penstock.table.plan import nodes as n

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.graph.transformations import Transformation
    from penstock.table.plan.nodes import Node

#: Characters of a plan's line that an uid shows.
_SHOWN = 200


class OperatorIds:
    """Assigns uids to the operators of one environment.

    Args:
        environment: The environment.
        is_enabled: Whether there are uids; without them ids follow from the topology.
    """

    def __init__(self, environment: StreamExecutionEnvironment, *, is_enabled: bool = True) -> None:
        self._environment = environment
        self._is_enabled = is_enabled
        self._first = reserve_id()
        known = _reachable(environment.added_operators(), 0)
        self._taken = {made.uid for made in known if made.uid is not None}
        self._digests: dict[int, tuple[Node, str]] = {}

    def name(self, made: PhysicalTransformation, node: Node) -> None:
        """Give an operator of a node its uid."""
        line = _plain(node).describe()
        if not line.startswith(made.name):
            line = f"{made.name}: {line}"
        self._give(made, f"{line[:_SHOWN]} #{self.digest(node)}")

    def name_source(self, made: Transformation, name: str) -> None:
        """Give the operators that read a table their uids; those of the program keep theirs."""
        self._name_all(_reachable([made], self._first), f"Source({name})")

    def name_sinks(self, name: str) -> None:
        """Give operators of the environment that have no uid yet those of a written table."""
        self._name_all(
            _reachable(self._environment.added_operators(), self._first), f"Sink({name})"
        )

    def digest(self, node: Node) -> str:
        """Return a text that is equal for nodes whose state is interchangeable."""
        known = self._digests.get(id(node))
        if known is None:
            known = self._digests[id(node)] = (node, self._digest(node))
        return known[1]

    def _digest(self, node: Node) -> str:
        if isinstance(node, n.Filter | n.AssignWatermarks):
            return self.digest(node.input)
        if isinstance(node, n.Scan):
            text = f"Scan({node.name})"
        else:
            columns = ", ".join(f"{field.name} {field.type}" for field in node.schema)
            text = f"{_plain(node).describe()} [{columns}]"
        parts = [text, *(self.digest(each) for each in node.inputs)]
        return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()

    def _name_all(self, found: Iterable[PhysicalTransformation], text: str) -> None:
        for made in sorted(found, key=lambda each: each.id):
            if made.uid is None:
                self._give(made, f"{text}: {made.name}")

    def _give(self, made: PhysicalTransformation, uid: str) -> None:
        if not self._is_enabled:
            return
        unique, number = uid, 1
        while unique in self._taken:
            number += 1
            unique = f"{uid} ({number})"
        self._taken.add(unique)
        made.uid = unique


def _plain(node: Node) -> Node:
    """Return a node without the settings that its state does not depend on."""
    changed: dict[str, Any] = {
        field.name: field.default for field in fields(node) if field.name == "state_ttl_ms"
    }
    return replace(node, **changed) if changed else node


def _reachable(ends: Iterable[Transformation], first: int) -> list[PhysicalTransformation]:
    """Return the operators that lead to some, from those with an id on."""
    seen: set[int] = set()
    found = []
    pending = list(ends)
    while pending:
        made = pending.pop()
        if made.id in seen or made.id < first:
            continue
        seen.add(made.id)
        pending.extend(made.inputs)
        if isinstance(made, PhysicalTransformation):
            found.append(made)
    return found
