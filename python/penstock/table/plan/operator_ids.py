"""Ids of operators, derived from the plan, so that a replanned statement finds its state.

The uid of an operator is its line of the plan and a digest of the inputs of its state: its node and
those below, except conditions of filters and times to live, which do not affect the form of state.
A replanned statement gets the same uids, whatever other statements are in its job.  A statement
that groups, joins or computes differently gets other uids, so that restoring is refused, and the
uids show the difference.
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

#: The number of characters of a plan's line in a uid.
_SHOWN = 200


class OperatorIds:
    """Assigns uids to the operators of one environment.

    Args:
        environment: The environment.
        is_enabled: Whether to assign uids; without them ids are derived from the topology.
    """

    def __init__(self, environment: StreamExecutionEnvironment, *, is_enabled: bool = True) -> None:
        self._environment = environment
        self._is_enabled = is_enabled
        self._first = reserve_id()
        known = _reachable(environment.added_operators(), 0)
        self._taken = {made.uid for made in known if made.uid is not None}
        self._digests: dict[int, tuple[Node, str]] = {}

    def name(self, made: PhysicalTransformation, node: Node) -> None:
        """Assign the uid of a node to its operator."""
        line = _plain(node).describe()
        if not line.startswith(made.name):
            line = f"{made.name}: {line}"
        self._give(made, f"{line[:_SHOWN]} #{self.digest(node)}")

    def name_source(self, made: Transformation, name: str) -> None:
        """Assign uids to the operators that read a table; the program's own uids are kept."""
        self._name_all(_reachable([made], self._first), f"Source({name})")

    def name_sinks(self, name: str) -> None:
        """Assign the uids of a written table to operators that have none yet."""
        self._name_all(
            _reachable(self._environment.added_operators(), self._first), f"Sink({name})"
        )

    def digest(self, node: Node) -> str:
        """Return the digest of a node; nodes with interchangeable state have the same."""
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
    """Return a node without the settings that do not affect its state."""
    changed: dict[str, Any] = {
        field.name: field.default for field in fields(node) if field.name == "state_ttl_ms"
    }
    return replace(node, **changed) if changed else node


def _reachable(ends: Iterable[Transformation], first: int) -> list[PhysicalTransformation]:
    """Return the operators upstream of some transformations, from a given id on."""
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
