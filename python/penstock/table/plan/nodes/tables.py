"""Nodes for the tables that a query reads and writes, and for constant rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.table.plan.nodes.node import Node, OneInput
from penstock.table.plan.nodes.row_kinds import INSERT

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.predicates import Predicate


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a table.

    Attributes:
        name: The path of the table, for messages.
        source: Source of the batches: ``source.transformation(context)`` returns a
            ``Transformation`` whose records are batches as described in the package.
        kinds: The row kinds of the table.
        is_bounded: Whether the table is bounded.
        projected: The positions of the columns whose values are read; None for all.
        predicates: The conditions by which the source skips rows, if it can.
        origin: The options of the table; scans of equal names and options read the same rows. None
            if only those of the same source do.
    """

    name: str
    source: Any
    kinds: frozenset[int] = frozenset({INSERT})
    is_bounded: bool = True
    projected: tuple[int, ...] | None = None
    predicates: tuple[Predicate, ...] = ()
    origin: tuple[tuple[str, str], ...] | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = self.schema.names
        parts = [self.name]
        if self.predicates:
            parts.append(f"filter=[{' AND '.join(map(str, self.predicates))}]")
        if self.projected is not None:
            names = [names[i] for i in self.projected]
            parts.append(f"project=[{', '.join(names)}]")
        return f"TableSourceScan(table=[[{', '.join(parts)}]], fields=[{', '.join(names)}])"


@dataclass(frozen=True)
class Values(Node):
    """Constant rows.

    Attributes:
        rows: The rows, as expressions without columns.
    """

    rows: tuple[tuple[Expression, ...], ...]

    def describe(self) -> str:
        """Return the node's line."""
        rows = ", ".join("{ " + ", ".join(map(str, row)) + " }" for row in self.rows)
        return f"Values(tuples=[[{rows}]])"


@dataclass(frozen=True)
class Sink(OneInput):
    """Rows that are written into a table.

    Attributes:
        name: The path of the table, for messages.
        sink: Sink of the batches: ``sink.consume(transformation, context)`` adds its operators.
        kinds: The row kinds that the table accepts.
    """

    name: str
    sink: Any
    kinds: frozenset[int] = frozenset({INSERT})

    def describe(self) -> str:
        """Return the node's line."""
        return f"Sink(table=[{self.name}], fields=[{', '.join(self.schema.names)}])"
