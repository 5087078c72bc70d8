"""The source of a table whose rows are in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.connectors.interfaces import TableSource
from penstock.table.connectors.record_types import batch_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext


class CollectionSource(TableSource):
    """Reads batches that the program has created.

    Args:
        batches: The batches, with the table's columns.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = [
            batch.slice(start, BATCH_ROWS)
            for batch in batches
            for start in range(0, batch.num_rows, BATCH_ROWS)
        ]

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that emits the batches."""
        schema: Any = self._batches[0].schema if self._batches else None
        declared = batch_type(schema)
        return context.environment.from_collection(self._batches, declared).transformation
