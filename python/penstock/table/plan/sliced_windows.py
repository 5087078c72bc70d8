"""Aggregates of windows whose partial results are merged, by slices that windows share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.table import types
from penstock.table.functions.aggregates import is_mergeable
from penstock.table.plan.sessions import rows_of_windows
from penstock.table.plan.windows import window_function_of

if TYPE_CHECKING:
    from penstock.table.plan import nodes as n
    from penstock.table.plan.nodes import Node

#: Types of keys whose equal values have one form, which kernels group.
_GROUPED: Final = (
    types.IntegralType,
    types.DecimalType,
    types.BooleanType,
    types.CharType,
    types.VarCharType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.LocalZonedTimestampType,
)


class SlicedWindows(NamedTuple):
    """The parts of an aggregate of windows.

    Attributes:
        rows: The rows, without their windows unless ``is_attached``.
        window: The windows.
        time_index: The position in the rows of the time, or of window_end.
        is_attached: Whether the rows have their windows, each row once for each of them.
    """

    rows: Node
    window: n.Window
    time_index: int
    is_attached: bool


def sliced_windows(node: n.WindowAggregate) -> SlicedWindows | None:
    """Return the windows of a node whose partial results by key and slice can be merged."""
    assert node.bounds is not None
    function = window_function_of(node.input)
    if function is None or function.window.kind == "SESSION" or function.is_proctime:
        return None
    keys = [node.input.schema.fields[key].type for key in node.keys]
    if not all(map(is_mergeable, node.calls)) or not all(isinstance(k, _GROUPED) for k in keys):
        return None
    found = rows_of_windows(node)
    if found is None:
        return SlicedWindows(node.input, function.window, node.bounds[1], is_attached=True)
    return SlicedWindows(found.rows, function.window, found.bounds[1], is_attached=False)
