"""Nodes that aggregate rows: by group, by window of time, by number, and over a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.table.plan.nodes.node import OneInput

if TYPE_CHECKING:
    from penstock.table.plan.expressions import AggregateCall, Frame, OrderItem

WindowKind: TypeAlias = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]


@dataclass(frozen=True)
class Window:
    """Windows of time.

    Attributes:
        kind: The assignment of rows to windows.
        size_ms: The size; the gap of sessions; the largest size of CUMULATE.
        slide_ms: The slide of HOP, the step of CUMULATE.
        offset_ms: The offset of the windows.
        is_rows: Whether sizes are numbers of rows instead of times.
    """

    kind: WindowKind
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    is_rows: bool = False

    def __str__(self) -> str:
        sizes = [f"size=[{self.size_ms} ms]"]
        if self.slide_ms:
            sizes.append(f"{'step' if self.kind == 'CUMULATE' else 'slide'}=[{self.slide_ms} ms]")
        return f"{self.kind}({', '.join(sizes)})"


@dataclass(frozen=True)
class Aggregate(OneInput):
    """Aggregates of rows with equal keys; the result has the keys and then the aggregates.

    Attributes:
        keys: The positions of the grouping columns.
        calls: The aggregates.
        state_ttl_ms: The state retention of a hint; None for the configured one.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    state_ttl_ms: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        parts = [f"groupBy=[{', '.join(names)}]"] if names else []
        parts.append(f"select=[{', '.join([*names, *map(str, self.calls)])}]")
        if self.state_ttl_ms is not None:
            parts.append(f"stateTtl=[{self.state_ttl_ms} ms]")
        return f"GroupAggregate({', '.join(parts)})"


@dataclass(frozen=True)
class CountWindowAggregate(OneInput):
    """Aggregates of a number of rows of each group, in the order of arrival.

    Attributes:
        keys: The positions of the grouping columns.
        calls: The aggregates.
        size: The number of rows of a window.
        slide: The number of rows between the starts of windows.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    size: int
    slide: int

    def describe(self) -> str:
        """Return the node's line."""
        select = ", ".join(map(str, self.calls))
        return f"GroupWindowAggregate(size=[{self.size}], slide=[{self.slide}], select=[{select}])"


@dataclass(frozen=True)
class TableAggregate(OneInput):
    """Rows that a table aggregate function returns for each group, after the group's keys.

    Attributes:
        keys: The positions of the grouping columns.
        call: The call of the function.
    """

    keys: tuple[int, ...]
    call: AggregateCall

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        grouped = f"groupBy=[{', '.join(names)}], " if names else ""
        return f"GroupTableAggregate({grouped}select=[{', '.join([*names, str(self.call)])}])"


@dataclass(frozen=True)
class WindowTableFunction(OneInput):
    """Each row once for each of its windows, with window_start, window_end and window_time.

    Attributes:
        window: The windows.
        time_index: The position of the time attribute.
        partition: The positions of the columns that partition sessions; for SESSION.
    """

    window: Window
    time_index: int
    partition: tuple[int, ...] = ()

    @property
    def is_proctime(self) -> bool:
        """Return whether the windows are of processing time."""
        return self.input.schema.fields[self.time_index].is_proctime

    @property
    def is_group_window(self) -> bool:
        """Return whether it represents a window of GROUP BY, where window_time may be NULL."""
        return self.schema.fields[-1].type.is_nullable

    def describe(self) -> str:
        """Return the node's line."""
        time = self.input.schema.names[self.time_index]
        return f"WindowTableFunction(window=[{self.window}, time_col=[{time}]])"


@dataclass(frozen=True)
class WindowAggregate(OneInput):
    """Aggregates of rows with equal keys and the same window.

    The result has the keys, the aggregates, and then the properties of the window.

    Attributes:
        window: The windows; None if the input's columns ``bounds`` have them.
        time_index: The position of the time attribute.
        keys: The positions of the grouping columns.
        calls: The aggregates.
        properties: ``start``, ``end``, ``rowtime`` and ``proctime``, in the order of the columns.
        bounds: The positions of window_start and window_end if ``window`` is None.
    """

    window: Window | None
    time_index: int
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[str, ...]
    bounds: tuple[int, int] | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        grouped = f"groupBy=[{', '.join(names)}], " if names else ""
        select = ", ".join([*names, *map(str, self.calls), *self.properties])
        window = self.window or "attached"
        return f"WindowAggregate({grouped}window=[{window}], select=[{select}])"


@dataclass(frozen=True)
class Over(OneInput):
    """Each row with aggregates of the rows around it.

    Attributes:
        partition: The positions of the partitioning columns.
        order: The order of the rows; its expressions are columns.
        frame: The rows that an aggregate covers.
        calls: The aggregates, which become the last columns.
    """

    partition: tuple[int, ...]
    order: tuple[OrderItem, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.partition]
        partition = f"partitionBy=[{', '.join(names)}], " if names else ""
        order = ", ".join(map(str, self.order))
        calls = ", ".join(map(str, self.calls))
        window = f"orderBy=[{order}], window=[{self.frame}]"
        return f"OverAggregate({partition}{window}, select=[*, {calls}])"
