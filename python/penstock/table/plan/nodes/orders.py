"""Nodes that depend on the order of rows: rank, deduplication, sort and pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.table.plan.nodes.node import OneInput

if TYPE_CHECKING:
    from penstock.table.plan.expressions import OrderItem


@dataclass(frozen=True)
class Rank(OneInput):
    """The first rows of each partition.

    Attributes:
        partition: Positions of the partitioning columns.
        order: The order of the rows; its expressions are columns.
        first: The first rank that stays, from 1.
        last: The last one; None for all.
        with_rank: Whether the last column of the result is the rank.
        bounds: Positions of window_start and window_end if the rows of a window are ranked when
            it ends; None if ranks are updated.
    """

    partition: tuple[int, ...]
    order: tuple[OrderItem, ...]
    first: int
    last: int | None
    with_rank: bool
    bounds: tuple[int, int] | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = ", ".join(self.input.schema.names[i] for i in self.partition)
        order = ", ".join(map(str, self.order))
        return (
            f"Rank(rankType=[ROW_NUMBER], rankRange=[rankStart={self.first}, "
            f"rankEnd={self.last}], partitionBy=[{names}], orderBy=[{order}])"
        )


@dataclass(frozen=True)
class Deduplicate(OneInput):
    """One row of each key: the first or the last by time.

    Attributes:
        keys: Positions of the columns of the key.
        time_index: The position of the time attribute.
        keep_last: Whether the last row stays, else the first.
    """

    keys: tuple[int, ...]
    time_index: int
    keep_last: bool

    def describe(self) -> str:
        """Return the node's line."""
        names = ", ".join(self.input.schema.names[i] for i in self.keys)
        kept = "LastRow" if self.keep_last else "FirstRow"
        time = "ROWTIME" if self.input.schema.fields[self.time_index].is_rowtime else "PROCTIME"
        return f"Deduplicate(keep=[{kept}], key=[{names}], order=[{time}])"


@dataclass(frozen=True)
class Sort(OneInput):
    """Rows in an order, all or some.

    Attributes:
        order: The order; its expressions are columns.  Empty of LIMIT alone.
        offset: How many rows are left out.
        limit: How many rows stay; None for all.
    """

    order: tuple[OrderItem, ...]
    offset: int = 0
    limit: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        parts = [f"orderBy=[{', '.join(map(str, self.order))}]"] if self.order else []
        if self.offset:
            parts.append(f"offset=[{self.offset}]")
        if self.limit is not None:
            parts.append(f"fetch=[{self.limit}]")
        return f"{'Sort' if self.order else 'Limit'}({', '.join(parts)})"


@dataclass(frozen=True)
class Match(OneInput):
    """Matches of a pattern among the rows of each partition: MATCH_RECOGNIZE.

    Attributes:
        specification: The pattern, its definitions and measures.
    """

    specification: Any

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.specification.partition]
        partition = f"partitionBy=[{', '.join(names)}], " if names else ""
        return f"Match({partition}{self.specification})"
