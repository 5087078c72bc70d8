"""The batches of results that aggregating operators emit."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.exchange import has_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.typeinfo import TypeInformation


class ResultBatches:
    """Creates batches of one type of rows or tuples."""

    def __init__(self, declared: TypeInformation) -> None:
        """Create the builder of batches of a type."""
        self._declared = declared
        self._is_exact = has_batches(declared)

    @cached_property
    def _schema(self) -> Any:
        return batch_schema(self._declared)

    def of(self, columns: Sequence[Any], timestamps: Any) -> ColumnBatch | None:
        """Return a batch of some columns.

        Args:
            columns: Arrow or numpy arrays, or lists of Python values.
            timestamps: An int64 array of Arrow, or one integer.

        Returns:
            None if the values of a column are not exactly those of Python, or do not fit.
        """
        if not self._is_exact:
            return None
        import pyarrow as pa

        try:
            arrays = [
                column if isinstance(column, pa.Array) else pa.array(column, field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
            arrays = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(arrays, self._schema, strict=True)
            ]
        except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
            # Keep the rows' values; a sink that cannot write one reports the error.
            return None
        data = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return ColumnBatch(data, self._declared, timestamps)


def value_list(column: Any) -> list[Any]:
    """Return the values of a column of Arrow or numpy, or of a list."""
    if isinstance(column, list):
        return column
    found: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
    return found
