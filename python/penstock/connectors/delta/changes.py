"""Changes of a Delta table: its rows, then those that each later version adds and removes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from penstock.common.row_kind import RowKind
from penstock.common.temporal_types import LocalZonedTimestampTypeInfo
from penstock.common.types import Row, rows_of_columns
from penstock.common.values.instants import datetime_of, micros_of
from penstock.connectors.delta.log import (
    CHANGED_FROM,
    CHANGED_TO,
    DELETED,
    DeltaLog,
    FileChange,
    Version,
)
from penstock.connectors.single_split import SingleSplitReader, SingleSplitSource
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from penstock.errors import FormatError, SourceError
from penstock.external.background import BackgroundCall
from penstock.formats.arrow_columns import ColumnMisfit, column_values
from penstock.formats.arrow_types import arrow_type

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.common.composite_types import RowTypeInfo

#: Rows that one call emits; the task does nothing else meanwhile.
_STEP: Final = 1000

_CHANGE_TYPE: Final = "_change_type"

#: The kinds of rows in files of changes, by the kind of the file.
_KINDS: Final = {
    CHANGED_FROM: {"update_preimage": RowKind.UPDATE_BEFORE, "delete": RowKind.DELETE},
    CHANGED_TO: {"update_postimage": RowKind.UPDATE_AFTER, "insert": RowKind.INSERT},
}


@dataclass
class ChangesSplit(SourceSplit):
    """Read position of a table; one split covers the whole table.

    Attributes:
        version: The current version.
        is_snapshot: Whether all rows of the version are read, or only its changes.
        file: The index of the current file among those added and removed.
        rows: The number of its rows that were emitted.
    """

    version: int
    is_snapshot: bool
    file: int = 0
    rows: int = 0

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "table"


class DeltaChangesSource(SingleSplitSource[Row, ChangesSplit]):
    """Emits the rows of a table, then changes of later versions; see `DeltaSource.for_changes`.

    One subtask reads, in the order of versions; the others end at once.
    """

    def __init__(
        self,
        uri: str,
        options: dict[str, str] | None,
        row_type: RowTypeInfo,
        begin: ChangesSplit,
        end_version: int | None,
        discovery_interval_ms: int,
    ) -> None:
        """Create a source; use `DeltaSource.for_changes`."""
        super().__init__()
        self.uri = uri
        self.options = options
        self.row_type = row_type
        self.end_version = end_version
        self.discovery_interval_s = discovery_interval_ms / 1000
        self._begin = begin

    def get_boundedness(self) -> Boundedness:
        """Return whether there is a last version."""
        is_bounded = self.end_version is not None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> RowTypeInfo:
        """Return the row type of the columns."""
        return self.row_type

    def first_split(self) -> ChangesSplit:
        """Return the split of the table at its start position."""
        return replace(self._begin)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[ChangesSplit]:
        """Create the reader of a subtask."""
        return _ChangesReader(self, reader_context)


class _ChangesReader(SingleSplitReader[ChangesSplit]):
    """Reads versions in order; if the next one is missing, a thread polls for it."""

    def __init__(self, source: DeltaChangesSource, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._log = DeltaLog(source.uri, source.options)
        self._look: BackgroundCall[Version | None] = BackgroundCall("delta-versions")
        self._has_looked = False
        self._version: Version | None = None
        self._file: _ChangedRows | None = None

    def poll_split(self, split: ChangesSplit, output: ReaderOutput) -> InputStatus:
        """Emit some rows."""
        if self._version is None:
            if self._is_over(split):
                return InputStatus.END_OF_INPUT
            if not self._look.is_done():
                return InputStatus.NOTHING_AVAILABLE
            self._version = self._look.taken()
            self._has_looked = True
            if self._version is None:
                return InputStatus.NOTHING_AVAILABLE
        if split.file < len(self._version.files):
            self._emit(split, self._version, output)
        else:
            self._version = None
            self._split = ChangesSplit(split.version + 1, False)
            self._has_looked = False
            if self._is_over(self._split):
                return InputStatus.END_OF_INPUT
        return InputStatus.MORE_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes after a search for the next version."""
        if self._split is not None and self._version is None and self._look.future is None:
            delay_s = self._source.discovery_interval_s if self._has_looked else 0.0
            self._look.begin(self._next_version, delay_s)
        return self._look.future

    def close(self) -> None:
        """Stop the thread."""
        self._look.close()

    def _is_over(self, split: ChangesSplit) -> bool:
        end = self._source.end_version
        return end is not None and split.version > end

    def _next_version(self) -> Version | None:
        """Search for the next version; runs in the reader's own thread."""
        split = self._split
        assert split is not None, "only called with a split"
        if split.is_snapshot:
            return self._log.snapshot(split.version)
        found = self._log.version(split.version)
        if found is None and not self._has_looked and self._log.newest() >= split.version:
            # It may have been committed between the two calls.
            found = self._log.version(split.version)
            if found is not None:
                return found
            raise SourceError(
                f"DeltaSource: the log of {self._source.uri} no longer has version "
                f"{split.version}, which was not read yet; retain the log for longer "
                "(delta.logRetentionDuration), and start from a snapshot"
            )
        return found

    def _emit(self, split: ChangesSplit, version: Version, output: ReaderOutput) -> None:
        if self._file is None:
            self._file = _ChangedRows(self._log, version.files[split.file], self._source, split)
        rows = self._file.next_rows()
        if rows is None:
            self._file = None
            split.file, split.rows = split.file + 1, 0
            return
        for row in rows:
            output.collect(row, version.time_ms)
        split.rows += len(rows)


class _ChangedRows:
    """Rows of a file, with their kinds, from a given one on."""

    def __init__(
        self, log: DeltaLog, file: FileChange, source: DeltaChangesSource, split: ChangesSplit
    ) -> None:
        from pyarrow import parquet

        self._where = f"{file.path} of version {split.version} of {source.uri}"
        self._file = file
        self._kinds = _KINDS.get(file.what)
        self._names = source.row_type.get_field_names()
        self._types = source.row_type.get_field_types()
        try:
            self._opened = parquet.ParquetFile(log.files.open_input_file(file.path))
        except FileNotFoundError as error:
            raise SourceError(
                f"DeltaSource: {self._where} no longer exists, and its rows were not read "
                "yet; let VACUUM retain removed files for longer, and start from a snapshot"
            ) from error
        self._skip = split.rows
        self._group = 0
        self._rows: list[Any] = []

    def next_rows(self) -> list[Any] | None:
        """Return some rows; None after the last one."""
        while not self._rows:
            if self._group == self._opened.num_row_groups:
                self._opened.close()
                return None
            size = self._opened.metadata.row_group(self._group).num_rows
            if self._kinds is None and size <= self._skip:
                self._skip -= size
            else:
                rows = self._rows_of_group()
                self._rows = rows[self._skip :]
                self._skip = max(0, self._skip - len(rows))
            self._group += 1
        rows, self._rows = self._rows[:_STEP], self._rows[_STEP:]
        return rows

    def _rows_of_group(self) -> list[Any]:
        there = set(self._opened.schema_arrow.names)
        wanted = [name for name in self._names if name in there]
        table = self._opened.read_row_group(
            self._group, wanted if self._kinds is None else [*wanted, _CHANGE_TYPE]
        )
        columns = [
            self._values(table[name], name, declared)
            if name in there
            else [self._value_of_partition(name, declared)] * table.num_rows
            for name, declared in zip(self._names, self._types, strict=True)
        ]
        rows = rows_of_columns(self._names, columns)
        if self._kinds is not None:
            kinds = map(self._kinds.get, table[_CHANGE_TYPE].to_pylist())
            changed = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if kind]
            for row, kind in changed:
                row.set_row_kind(kind)
            return [row for row, _ in changed]
        if self._file.what == DELETED:
            for row in rows:
                row.set_row_kind(RowKind.DELETE)
        return rows

    def _values(self, column: Any, name: str, declared: Any) -> list[Any]:
        try:
            # The table, and not the file, defines which timestamps have a zone.
            return column_values(column, declared, is_utc=True)
        except ColumnMisfit as misfit:
            raise FormatError(f"DeltaSource: {self._where}: {misfit.within(name)}") from None

    def _value_of_partition(self, name: str, declared: Any) -> Any:
        """Return the value of a partition column that the file does not contain."""
        import pyarrow as pa

        text = self._file.partition.get(name)
        if not text:
            return None
        if isinstance(declared, LocalZonedTimestampTypeInfo):
            return datetime_of(micros_of(datetime.fromisoformat(text)))
        return column_values(pa.array([text]).cast(arrow_type(declared)), declared)[0]
