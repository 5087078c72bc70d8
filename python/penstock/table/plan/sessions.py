"""Aggregates of session windows whose rows need not be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.table.functions.aggregates import is_mergeable
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from penstock.table.plan.nodes import Node


class AggregatedSessions(NamedTuple):
    """The parts of an aggregate of sessions.

    Attributes:
        rows: The rows, with their time in place of each column of the window.
        function: The function that assigns the windows.
        partition: The positions in the rows of the columns that partition sessions.
        time_index: The position of the time.
        bounds: The positions that stand for window_start, window_end and window_time; None for no
            such column.
    """

    rows: Node
    function: n.WindowTableFunction
    partition: tuple[int, ...]
    time_index: int
    bounds: tuple[int, int, int | None]


class WindowRows(NamedTuple):
    """The rows below the function that assigns the windows of an aggregate.

    Attributes:
        rows: The rows, with their time in place of each column of the window.
        function: The function.
        bounds: The positions that stand for window_start, window_end and window_time; None for no
            such column.
        given: The expressions of the rows' columns, over the function's.
    """

    rows: Node
    function: n.WindowTableFunction
    bounds: tuple[int, int, int | None]
    given: tuple[e.Expression, ...]


def aggregated_sessions(node: n.WindowAggregate) -> AggregatedSessions | None:
    """Return the sessions of a node that groups by them and their partition alone.

    Returns:
        None if the rows of a session must be kept until it ends.
    """
    found = rows_of_windows(node)
    if found is None or found.function.window.kind != "SESSION":
        return None
    if found.function.is_proctime or not all(map(is_mergeable, node.calls)):
        return None
    given = found.given
    keys = [key for key in node.keys if key not in found.bounds]
    partition = [given[key].index for key in keys if isinstance(given[key], e.Column)]  # type: ignore[attr-defined]
    if len(partition) != len(keys) or set(partition) != set(found.function.partition):
        return None
    return AggregatedSessions(
        found.rows, found.function, tuple(keys), found.bounds[0], found.bounds
    )


def rows_of_windows(node: n.WindowAggregate) -> WindowRows | None:
    """Return the rows of a node's windows.

    Returns:
        None if more than a projection is between them, or an expression reads the window.
    """
    project = node.input if isinstance(node.input, n.Project) else None
    function = node.input if project is None else project.input
    if not isinstance(function, n.WindowTableFunction):
        return None
    given = tuple(n.columns(function)) if project is None else project.expressions
    width = len(function.input.schema)
    time = function.input.schema.fields[function.time_index]
    instead = e.Column(time.type, function.time_index, time.name)
    expressions: list[e.Expression] = []
    of_window: dict[int, int] = {}
    places: set[int] = set()
    for place, expression in enumerate(given):
        if isinstance(expression, e.Column) and expression.index >= width:
            of_window.setdefault(expression.index - width, place)
            places.add(place)
            expressions.append(instead)
        elif all(index < width for index in e.columns_of(expression)):
            expressions.append(expression)
        else:
            return None
    if any(places & e.columns_of(call) for call in node.calls):
        return None  # what it aggregates is known when the window is
    assert node.bounds is not None
    bounds = (*node.bounds, of_window.get(2))
    if bounds[:2] != (of_window.get(0), of_window.get(1)) or places & {*node.keys} - {*bounds}:
        return None
    fields = zip(expressions, node.input.schema.names, strict=True)
    rows = n.Project(
        Schema(tuple(Field(name, x.type) for x, name in fields)),
        function.input,
        tuple(expressions),
    )
    return WindowRows(rows, function, bounds, given)
