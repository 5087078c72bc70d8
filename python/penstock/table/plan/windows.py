"""Windows of time in plans: table functions, their columns, and nodes that preserve them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema
from penstock.table.types import TimeAttribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node, WindowKind


@dataclass(frozen=True)
class WindowColumns:
    """Positions of the window columns of a row.

    Attributes:
        start: The position of window_start.
        end: The position of window_end.
        time: The position of window_time; None if it was projected away.
        is_proctime: Whether windows are in processing time.
    """

    start: int
    end: int
    time: int | None
    is_proctime: bool


def window_columns(node: Node) -> WindowColumns | None:
    """Return the columns of a row's window; None if the rows have no window."""
    match node:
        case n.WindowTableFunction():
            width = len(node.schema)
            is_proctime = node.input.schema.fields[node.time_index].is_proctime
            return WindowColumns(width - 3, width - 2, width - 1, is_proctime)
        case n.Filter() | n.Rank() | n.Over() | n.Correlate() | n.Expand():
            return window_columns(node.input)
        case n.Project():
            return _projected(window_columns(node.input), node.expressions)
        case n.WindowAggregate():
            return _of_aggregate(node)
        case n.WindowJoin():
            return window_columns(node.left)
        case n.Join() if node.kind in ("SEMI", "ANTI"):
            return window_columns(node.left)
    return None


def window_function_of(node: Node) -> n.WindowTableFunction | None:
    """Return the function that assigns windows to the rows of a node, or None."""
    while not isinstance(node, n.WindowTableFunction):
        if not node.inputs:
            return None
        node = node.inputs[0]
    return node


def _projected(
    found: WindowColumns | None, expressions: Sequence[Expression]
) -> WindowColumns | None:
    if found is None:
        return None
    places = {
        x.index: i for i, x in reversed(list(enumerate(expressions))) if isinstance(x, e.Column)
    }
    if found.start not in places or found.end not in places:
        return None
    time = None if found.time is None else places.get(found.time)
    return WindowColumns(places[found.start], places[found.end], time, found.is_proctime)


def _of_aggregate(node: n.WindowAggregate) -> WindowColumns | None:
    assert node.bounds is not None
    inner = window_columns(node.input)
    keys = list(node.keys)
    time = keys.index(node.time_index) if node.time_index in keys else None
    is_proctime = inner.is_proctime if inner is not None else False
    start, end = node.bounds
    return WindowColumns(keys.index(start), keys.index(end), time, is_proctime)


def window_table_function(
    input: Node,
    kind: WindowKind,
    time_index: int,
    sizes: Sequence[int],
    *,
    offset_ms: int = 0,
    partition: tuple[int, ...] = (),
    has_nullable_bounds: bool = False,
    has_nullable_time: bool = False,
    takes_plain_time: bool = False,
) -> n.WindowTableFunction:
    """Return the table function that assigns windows to rows.

    Args:
        input: The rows.
        kind: The kind of windows.
        time_index: The position of the time attribute.
        sizes: Sizes in ms, in the order of the function's arguments: TUMBLE's size; HOP's slide
            and size; CUMULATE's step and largest size; SESSION's gap.
        offset_ms: The offset of the windows.
        partition: The positions of the columns that partition sessions.
        has_nullable_bounds: Whether window_start and window_end have nullable types.
        has_nullable_time: Whether window_time has a nullable type.
        takes_plain_time: Whether a timestamp that is not a time attribute will do, as in batch
            mode.

    Raises:
        TableException: The sizes are incompatible.
        ValidationException: The column is not a time attribute.
    """
    field = input.schema.fields[time_index]
    is_plain = isinstance(field.type, types.TimestampType | types.LocalZonedTimestampType)
    if not field.is_time and not (takes_plain_time and is_plain):
        raise ValidationException(
            f"The window function {kind} requires the timecol '{field.name}' to be a time "
            f"attribute, but it is of type {field.type}: declare a WATERMARK for it"
        )
    if any(size <= 0 for size in sizes):
        raise TableException(f"{kind} table function requires sizes above 0")
    slide = 0
    size = sizes[0]
    if kind in ("HOP", "CUMULATE"):
        slide, size = sizes
        if kind == "CUMULATE" and size % slide:
            raise TableException(
                "CUMULATE table function based aggregate requires maxSize must be an integral "
                f"multiple of step, but got maxSize {size} ms and step {slide} ms"
            )
    window = n.Window(kind, size, slide, offset_ms)
    plain = types.TimestampType(3, nullable=False)
    time: Any = (
        types.LocalZonedTimestampType(3, nullable=False)
        if isinstance(field.type, types.LocalZonedTimestampType)
        else plain
    )
    plain = plain.with_nullability(has_nullable_bounds)
    time = time.with_nullability(has_nullable_time)
    attribute = TimeAttribute.PROCTIME if field.is_proctime else TimeAttribute.ROWTIME
    fields = (
        *(_kept(f) for f in input.schema.fields),
        Field("window_start", plain),
        Field("window_end", plain),
        Field("window_time", time.with_time_attribute(attribute)),
    )
    return n.WindowTableFunction(Schema(fields), input, window, time_index, partition)


def refuse_uneven_hops(function: n.WindowTableFunction | None) -> None:
    """Refuse HOP windows of rows that are aggregated in a stream, as Flink does.

    Raises:
        TableException: The size of a window is not a multiple of its slide.
    """
    if function is None or function.window.kind != "HOP" or function.is_group_window:
        return
    size, slide = function.window.size_ms, function.window.slide_ms
    if size % slide:
        raise TableException(
            "HOP table function based aggregate requires size must be an integral multiple of "
            f"slide, but got size {size} ms and slide {slide} ms"
        )


def _kept(field: Field) -> Field:
    # As in Flink, the row's own time is no longer a time attribute after a window.
    return field.plain()


def milliseconds(expression: Expression, what: str) -> int:
    """Return the length of a constant interval.

    Raises:
        ValidationException: It is not a constant interval of days to seconds.
    """
    if isinstance(expression, e.Literal) and isinstance(expression.value, datetime.timedelta):
        return expression.value // datetime.timedelta(milliseconds=1)
    raise ValidationException(
        f"{what} must be a constant interval of days, hours, minutes or seconds, got '{expression}'"
    )


def is_zoned(node: Node) -> bool:
    """Return whether the windows of a node are in local time."""
    from penstock.table.types import LocalZonedTimestampType

    found = window_function_of(node)
    if found is None:
        return False
    return isinstance(found.input.schema.fields[found.time_index].type, LocalZonedTimestampType)
