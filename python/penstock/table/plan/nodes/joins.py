"""Nodes that combine relations: joins, unions, INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.table.plan.nodes.node import Node, TwoInputs
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression

JoinKind: TypeAlias = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]


@dataclass(frozen=True)
class Join(TwoInputs):
    """Pairs of rows.

    The result has the columns of the left and then of the right side; SEMI and ANTI have only those
    of the left.

    Attributes:
        kind: The kind of the join, which decides on rows without a match.
        left_keys: The positions of the left columns that must equal ``right_keys``.
        right_keys: The positions of columns of the right side.
        condition: The condition on the joined row besides the keys; None for none.
        is_null_aware: For NOT IN: whether a NULL on the right excludes all rows.
        equates_nulls: Whether NULL equals NULL, as in set operations.
        state_ttl_ms: The state retention of both sides of a hint; None for the configured one.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: Expression | None = None
    is_null_aware: bool = False
    equates_nulls: bool = False
    state_ttl_ms: tuple[int | None, int | None] = (None, None)

    def describe(self) -> str:
        """Return the node's line."""
        parts = [f"joinType=[{self.kind}]", f"where=[{self._where()}]"]
        if self.state_ttl_ms != (None, None):
            left, right = ("default" if t is None else f"{t} ms" for t in self.state_ttl_ms)
            parts.append(f"stateTtl=[{left}, {right}]")
        return f"Join({', '.join(parts)})"

    def _where(self) -> str:
        left, right = self.left.schema.names, self.right.schema.names
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        parts = [f"({left[i]} = {right[j]})" for i, j in pairs]
        if self.condition is not None:
            parts.append(str(self.condition))
        return " AND ".join(parts) or "true"


@dataclass(frozen=True)
class IntervalJoin(Join):
    """A join with bounds on the difference of the rows' times.

    Attributes:
        left_time: The position of the left time attribute.
        right_time: The position of the right time attribute.
        lower_ms: The lower bound of the right time relative to the left one, inclusive.
        upper_ms: The upper bound, inclusive.
    """

    left_time: int = 0
    right_time: int = 0
    lower_ms: int = 0
    upper_ms: int = 0

    def describe(self) -> str:
        """Return the node's line."""
        bounds = f"leftLowerBound={self.lower_ms}, leftUpperBound={self.upper_ms}"
        where = f"where=[{self._where()}]"
        return f"IntervalJoin(joinType=[{self.kind}], windowBounds=[{bounds}], {where})"


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Each left row with the version of the right side at its time.

    Attributes:
        left_time: The position of the left time attribute.
        right_time: The position of the right time attribute; None to join the current version.
    """

    left_time: int = 0
    right_time: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        return f"TemporalJoin(joinType=[{self.kind}], where=[{self._where()}])"


@dataclass(frozen=True)
class LookupJoin(Join):
    """Each left row with the rows that a table returns for its key on arrival.

    Attributes:
        source: The lookup source of the right side.
    """

    source: Any = None

    def describe(self) -> str:
        """Return the node's line."""
        return f"LookupJoin(joinType=[{self.kind}], lookup=[{self._where()}])"


@dataclass(frozen=True)
class WindowJoin(Join):
    """Pairs of rows of the same window.

    Attributes:
        left_bounds: The positions of window_start and window_end on the left.
        right_bounds: The positions on the right.
    """

    left_bounds: tuple[int, int] = (0, 0)
    right_bounds: tuple[int, int] = (0, 0)

    def describe(self) -> str:
        """Return the node's line."""
        return f"WindowJoin(joinType=[{self.kind}], where=[{self._where()}])"


def joined_schema(left: Node, right: Node, kind: JoinKind) -> Schema:
    """Return the schema of a join, in which a side that may be missing is nullable."""
    fields = list(left.schema.fields)
    if kind in ("RIGHT", "FULL"):
        fields = [Field(f.name, f.type.nullable()) for f in fields]
    if kind in ("SEMI", "ANTI"):
        return Schema(tuple(fields), left.schema.primary_key)
    others = list(right.schema.fields)
    if kind in ("LEFT", "FULL"):
        others = [Field(f.name, f.type.nullable()) for f in others]
    return Schema(tuple(fields + others))


@dataclass(frozen=True)
class Union(Node):
    """The rows of all inputs.

    Attributes:
        relations: The inputs; their columns have equal types.
    """

    relations: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The inputs of the union."""
        return self.relations

    def describe(self) -> str:
        """Return the node's line."""
        return f"Union(all=[true], union=[{', '.join(self.schema.names)}])"


@dataclass(frozen=True)
class SetOperation(TwoInputs):
    """INTERSECT or EXCEPT.

    Attributes:
        kind: The operation.
        is_all: Whether equal rows are counted.
    """

    kind: Literal["INTERSECT", "EXCEPT"]
    is_all: bool

    def describe(self) -> str:
        """Return the node's line."""
        return f"{self.kind.capitalize()}(all=[{str(self.is_all).lower()}])"
