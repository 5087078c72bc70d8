"""Ids of operators, derived from the plan, so that a replanned statement finds its state.

The uid of an operator is its line of the plan and a digest of the inputs of its state: its node and
the origins of the columns that it reads.  Conditions of filters, times to live, and columns that
only filters or other statements read do not affect the form of state, and so not the digest.
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
from penstock.table.plan.expressions import Column, substituted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.graph.transformations import Transformation
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node

#: The number of characters of a plan's line in a uid.
_SHOWN = 200
_STATELESS = ("Calc", "DropUpdateBefore", "Exchange", "LocalWindowAggregate", "WindowExtremes")


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
        self._origins: dict[int, tuple[Node, tuple[str, ...]]] = {}

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
        match node:
            case n.Scan():
                return _hashed(f"Scan({node.name})")
            case n.Filter():
                return self.digest(node.input)
            case n.AssignWatermarks():
                return _hashed(self._rows(node.input), self._columns(node.input)[node.index])
        columns = ", ".join(f"{field.name} {field.type}" for field in node.schema)
        parts = [f"{_plain(node).describe()} [{columns}]"]
        for each in node.inputs:
            parts += [self._rows(each), *self._columns(each)]
        return _hashed(*parts)

    def _rows(self, node: Node) -> str:
        """Return the origin of the rows of a node, whatever its columns."""
        match node:
            case n.Project() | n.Filter() | n.AssignWatermarks():
                return self._rows(node.input)
            case n.WindowTableFunction() if node.window.kind != "SESSION":
                return _hashed(node.describe(), self._rows(node.input))
        return self.digest(node)

    def _columns(self, node: Node) -> tuple[str, ...]:
        """Return the origin of each column of a node."""
        known = self._origins.get(id(node))
        if known is None:
            known = self._origins[id(node)] = (node, tuple(self._origins_of(node)))
        return known[1]

    def _origins_of(self, node: Node) -> Iterable[str]:
        match node:
            case n.Filter() | n.AssignWatermarks():
                return self._columns(node.input)
            case n.Project():
                below = zip(node.input.schema, self._columns(node.input), strict=True)
                columns = tuple(Column(field.type, 0, origin) for field, origin in below)
                return [_origin(substituted(each, columns)) for each in node.expressions]
            case n.WindowTableFunction() if node.window.kind != "SESSION":
                time = self._columns(node.input)[node.time_index]
                bounds = [_hashed(node.describe(), time, name) for name in node.schema.names[-3:]]
                return [*self._columns(node.input), *bounds]
            case n.Scan():
                return [_hashed(self.digest(node), name) for name in node.schema.names]
        return [_hashed(self.digest(node), str(place)) for place in range(len(node.schema))]

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


def stateful_uids(environment: StreamExecutionEnvironment) -> list[str]:
    """Return the uids of the operators of an environment's next job, without stateless ones."""
    found = _reachable(environment.added_operators(), 0)
    return [made.uid for made in found if made.uid and made.name not in _STATELESS]


def _hashed(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _origin(expression: Expression) -> str:
    """Return the origin of an expression over columns whose names are origins."""
    if isinstance(expression, Column):
        return expression.name
    return _hashed(str(expression), str(expression.type))


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
