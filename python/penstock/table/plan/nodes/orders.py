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
        partition: The positions of the partitioning columns.
        order: The order of the rows; its expressions are columns.
        first: The first rank in the result, from 1.
        last: The last rank; None for no limit.
        with_rank: Whether the last column of the result is the rank.
        bounds: The positions of window_start and window_end if the rows of a window are ranked at
            its end; None if ranks are updated.
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
    """One row of each key, the first or the last by time.

    Attributes:
        keys: The positions of the key columns.
        time_index: The position of the time attribute.
        keep_last: Whether the last row is the result, or the first.
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
    """All rows in an order, or a range of them.

    Attributes:
        order: The order; its expressions are columns.  Empty for LIMIT alone.
        offset: The number of rows that are skipped.
        limit: The number of rows that are emitted; None for all.
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
    """Matches of a pattern in the rows of each partition: MATCH_RECOGNIZE.

    Attributes:
        specification: The pattern, its definitions and measures.
    """

    specification: Any

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.specification.partition]
        partition = f"partitionBy=[{', '.join(names)}], " if names else ""
        return f"Match({partition}{self.specification})"
