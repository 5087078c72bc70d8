"""Reads the files of a table, one after the other."""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.types import rows_of_columns
from penstock.connectors.split_source import (
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from penstock.errors import FormatError, SourceError
from penstock.formats.arrow_columns import ColumnMisfit, column_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connectors.iceberg.description import TableDescription

#: Rows that one call emits; the task does nothing else meanwhile.
_STEP: Final = 1000


@dataclass
class TableFile(SourceSplit):
    """A file of a snapshot, and the read position in it.

    Attributes:
        name: A name that is unique within the source.
        task: The file and its deletions, as pyiceberg describes them, pickled.
        rows: The number of its rows that were emitted.
    """

    name: str
    task: bytes
    rows: int

    def split_id(self) -> str:
        """Return the snapshot and the path."""
        return self.name


class IcebergReader(SourceReader[TableFile]):
    """Requests a file when it has read the previous one."""

    def __init__(self, source: TableDescription, context: SourceReaderContext) -> None:
        """Create a reader without files."""
        self._source, self._context = source, context
        self._files: deque[TableFile] = deque()
        self._batches: Iterator[Any] | None = None
        self._rows: list[Any] = []
        self._no_more_splits = False

    def start(self) -> None:
        """Request a file, unless a checkpoint restored some."""
        if not self._files:
            self._context.send_split_request()

    def add_splits(self, splits: list[TableFile]) -> None:
        """Add files."""
        self._files.extend(map(replace, splits))

    def notify_no_more_splits(self) -> None:
        """Note that no more files follow."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some rows."""
        if not self._files:
            is_over = self._no_more_splits
            return InputStatus.END_OF_INPUT if is_over else InputStatus.NOTHING_AVAILABLE
        file = self._files[0]
        if self._batches is None:
            self._batches = self._opened(file)
        if not self._rows:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = None
                self._files.popleft()
                output.release_output_for_split(file.name)
                if not self._files:
                    self._context.send_split_request()
                return InputStatus.MORE_AVAILABLE
            self._rows = self._rows_of(batch)
        step, self._rows = self._rows[:_STEP], self._rows[_STEP:]
        output.create_output_for_split(file.name).collect_all(step)
        file.rows += len(step)
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[TableFile]:
        """Return the files that are not read to the end."""
        del checkpoint_id
        return list(map(replace, self._files))

    def _opened(self, file: TableFile) -> Iterator[Any]:
        """Open a file and return its batches from the first row that was not emitted."""
        from pyiceberg.io.pyarrow import ArrowScan

        source, table = self._source, self._source.opened()
        scan = ArrowScan(table.metadata, table.io, source.schema, source.row_filter)
        left = file.rows
        try:
            for batch in scan.to_record_batches([pickle.loads(file.task)]):
                if batch.num_rows <= left:
                    left -= batch.num_rows
                    continue
                yield batch.slice(left)
                left = 0
        except FileNotFoundError as error:
            raise SourceError(
                f"IcebergSource: {file.name} of {source.table} no longer exists, and its rows "
                "were not read yet; expire snapshots later, and start from a snapshot"
            ) from error

    def _rows_of(self, batch: Any) -> list[Any]:
        row_type = self._source.row_type
        names = row_type.get_field_names()
        columns = []
        for name, kind in zip(names, row_type.get_field_types(), strict=True):
            try:
                columns.append(column_values(batch[name], kind))
            except ColumnMisfit as misfit:
                raise FormatError(
                    f"{self._files[0].name} of {self._source.table}: {misfit.within(name)}"
                ) from None
        return rows_of_columns(names, columns)
