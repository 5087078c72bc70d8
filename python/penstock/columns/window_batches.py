"""Calls of batch functions with the records of a window; `WindowedStream.apply_batches`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.columns.batch_functions import BatchFunction
from penstock.columns.column_batch import ColumnBatch
from penstock.datastream.functions.function import WrappedFunction
from penstock.datastream.functions.window import ProcessAllWindowFunction, ProcessWindowFunction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.columns.batch_fields import BatchFields
    from penstock.columns.batch_functions import Frame
    from penstock.common.composite_types import RowTypeInfo


class WindowBatches(WrappedFunction):
    """Calls a function with all records of a window as one batch."""

    def __init__(
        self, function: Any, frame: Frame, fields: BatchFields, result_type: RowTypeInfo
    ) -> None:
        """Wrap a function.

        Args:
            function: The function; its methods ``open`` and ``close`` are called if it has them.
            frame: The kind of frame that it receives.
            fields: The columns of the batches.
            result_type: The type of the rows that it returns.
        """
        super().__init__(function)
        self._batches = BatchFunction(function, frame, result_type, "apply_batches")
        self._fields = fields

    def of(self, key: Any, window: Any, elements: Iterable[Any]) -> list[Any]:
        """Return the rows of the function for a window."""
        fields = self._fields
        data = fields.data(elements)
        bounds = (window.start, window.end) if fields.has_bounds else ()
        added = (*fields.values_of_key(key), *bounds)
        data = fields.with_added(data, [added] * data.num_rows)
        return self._batches(ColumnBatch(data, fields.row_type)).rows()


class KeyedWindowBatches(WindowBatches, ProcessWindowFunction[Any, Any, Any, Any]):
    """The batches of keyed windows."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        """Return the rows of a window."""
        return self.of(key, context.window(), elements)


class AllWindowBatches(WindowBatches, ProcessAllWindowFunction[Any, Any, Any]):
    """The batches of windows over all records."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        """Return the rows of a window."""
        return self.of(None, context.window(), elements)
