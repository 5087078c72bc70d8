"""Named aggregates of windows: the rows that windows emit, and the windows that accept columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.aggregates.named import KeyFields, NamedAggregates, ResultRows
from penstock.datastream.functions.window import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.datastream.window.stagger import WindowStagger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.common.composite_types import RowTypeInfo

#: Assigners whose windows have no bounds in time.
_BOUNDLESS = (GlobalWindows, CountTumblingWindowAssigner, CountSlidingWindowAssigner)


def has_bounds(assigner: Any) -> bool:
    """Return whether the rows of an assigner's windows contain start and end."""
    return not isinstance(assigner, _BOUNDLESS)


class WindowRows:
    """Creates the rows of windows from the values of their aggregates.

    Attributes:
        key_fields: The fields of the key.
        has_bounds: Whether the start and the end of the window follow them.
        result_type: The type of the rows.
    """

    def __init__(
        self, key_fields: KeyFields, result_type: RowTypeInfo, *, has_bounds: bool
    ) -> None:
        """Create a builder of rows of a type."""
        self.key_fields = key_fields
        self.has_bounds = has_bounds
        self.result_type = result_type
        self._rows = ResultRows(result_type)

    def of(self, key: Any, window: Any, elements: Iterable[Any]) -> Iterator[Any]:
        """Yield the row of the single tuple of values."""
        bounds = (window.start, window.end) if self.has_bounds else ()
        for values in elements:
            yield self._rows.one((*self.key_fields.values(key), *bounds, *values))


class KeyedWindowRows(WindowRows, ProcessWindowFunction[Any, Any, Any, Any]):
    """Creates the rows of keyed windows."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        """Yield the row of a window."""
        return self.of(key, context.window(), elements)


class AllWindowRows(WindowRows, ProcessAllWindowFunction[Any, Any, Any]):
    """Creates the rows of windows over all records."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        """Yield the row of a window."""
        return self.of(None, context.window(), elements)


def why_not_in_columns(descriptor: Any, *, is_batch: bool) -> str | None:
    """Return why windows process records one by one; None if they may use columns.

    Args:
        descriptor: A `penstock.graph.operators.Window`.
        is_batch: Whether the job runs in BATCH mode.
    """
    if not isinstance(descriptor.function, NamedAggregates):
        return "as a function is called with the records of windows"
    if is_batch:
        return "as BATCH mode sorts them by key"
    assigner, trigger = descriptor.assigner, descriptor.trigger
    if type(trigger) is PurgingTrigger:
        trigger = trigger.nested_trigger
    tumbles = (
        type(assigner) is TumblingEventTimeWindows and assigner._stagger is WindowStagger.ALIGNED
    )
    slides = type(assigner) is SlidingEventTimeWindows and assigner._slide <= assigner._size
    if not (tumbles or slides):
        return f"as {type(assigner).__name__} looks at each"
    if type(trigger) is not EventTimeTrigger or descriptor.evictor is not None:
        return "as its trigger or evictor looks at each"
    if descriptor.lateness_ms:
        return "as late records fire their windows again"
    return None
