"""DeltaSink: appends to tables of Delta Lake, by the package deltalake (beyond PyFlink).

A writer writes Parquet files that no version of the table names yet.  Before a checkpoint it
finishes them; the only committer adds them to the table once the checkpoint is complete.  Each
commit stores the last transaction number of each writer (Delta's ``txn`` actions), so that
committables repeated after a failure are recognised.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.connectors.change_batches import DELETED, ChangeBatchWriter, last_changes
from penstock.connectors.change_rows import ChangeKey
from penstock.connectors.committer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    SupportsGlobalCommitter,
)
from penstock.connectors.delta.library import delta_library, opening_of
from penstock.connectors.files.source import sink_path
from penstock.connectors.writer_sink import (
    CommittingSinkWriter,
    PythonSink,
    SinkWriter,
    WriterInitContext,
)
from penstock.errors import FormatError, InvalidProgramError, SinkError
from penstock.formats.arrow_types import columns_of, row_type_of, table_schema
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit, meant_for, note_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.common.composite_types import RowTypeInfo


#: Rows that are converted to columns at a time.
_BATCH_ROWS: Final = 8192
#: Partition files open at a time; if there are more, the one opened first is finished.
_MOST_OPEN: Final = 64
#: Types that partition columns can have.
_PARTITION_TYPES: Final = ("string", "bool", "int8", "int16", "int32", "int64", "date32[day]")

#: The committable of a writer: the writer's id, the number of the transaction, and its files,
#: each with path, bytes, partition values, time in ms, and number of rows.
Committable = tuple[str, int, list[tuple[str, int, dict[str, str | None], int, int]]]


@checks_arguments
class DeltaSink(PythonSink[Any], SupportsGlobalCommitter[Any]):
    """Appends rows to a table of Delta Lake, or merges changes, exactly once with checkpoints.

    Each checkpoint with rows becomes one version of the table.
    """

    def __init__(
        self,
        table_uri: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        storage_options: dict[str, str] | None = None,
        key: Sequence[str] = (),
    ) -> None:
        """Create a sink.

        Args:
            table_uri: The folder of the table, or a URL that deltalake knows; a missing table is
                created.
            schema: A row type, as ``Types.ROW_NAMED`` describes it, or an Arrow schema.
            partition_by: Names of columns; for an existing table they must be its own.
            storage_options: Options of deltalake for the store.
            key: Names of columns by which changes are merged: ``+I`` and ``+U`` insert or
                replace the row of a key, ``-D`` and ``-U`` delete it; without them all rows are
                appended, whatever their kind.

        Raises:
            InvalidProgramError: The schema is invalid, or a partition or key column is not allowed.
            DependencyError: deltalake or pyarrow is not installed.
        """
        super().__init__()
        delta_library("DeltaSink")
        row_type = row_type_of(schema, "DeltaSink")
        self._row_type: RowTypeInfo = row_type
        self._schema = table_schema(schema, row_type)
        self._partition_by = list(partition_by)
        for name in self._partition_by:
            if name not in self._schema.names:
                raise InvalidProgramError(
                    f"DeltaSink: partition_by names the column {name!r}, which does not exist; "
                    f"the columns are {self._schema.names}"
                )
            kind = str(self._schema.field(name).type)
            if kind not in _PARTITION_TYPES:
                raise InvalidProgramError(
                    f"DeltaSink: the column {name!r} of type {kind} cannot partition the table: "
                    f"choose a column of type {', '.join(_PARTITION_TYPES)}"
                )
        if len(set(self._partition_by)) < len(self._partition_by):
            raise InvalidProgramError(
                f"DeltaSink: partition_by has a column twice: {self._partition_by}"
            )
        if len(self._partition_by) == len(self._schema.names):
            raise InvalidProgramError(
                "DeltaSink: at least one column must not be a partition column"
            )
        self._uri = sink_path(table_uri)
        self._options = storage_options
        self._key = ChangeKey("DeltaSink", key, self._schema.names) if key else None

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key selector, which keeps the changes of a key in order."""
        return self._key

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        del context
        if self._key is not None:
            return ChangeBatchWriter(
                "DeltaSink", self._uri, self._row_type, self._schema, self._key
            )
        return _DeltaWriter(
            self._uri, self._options, self._row_type, self._schema, self._partition_by
        )

    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        """Create the only committer, and the table if it is missing."""
        del context
        if self._key is not None:
            return _DeltaMerger(
                self._uri, self._options, self._schema, self._partition_by, self._key.names
            )
        return _DeltaCommitter(self._uri, self._options, self._schema, self._partition_by)


@dataclass
class _OpenFile:
    """A file that is being written."""

    path: str
    stream: Any
    writer: Any
    values: dict[str, str | None]
    rows: int = 0


class _DeltaWriter(CommittingSinkWriter[Any, Committable]):
    """Writes the rows between two checkpoints into one file for each partition."""

    def __init__(
        self,
        uri: str,
        options: dict[str, str] | None,
        row_type: RowTypeInfo,
        schema: Any,
        partition_by: list[str],
    ) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        with opening_of(uri, "DeltaSink", SinkError):
            if "://" not in uri:
                # The committer may not have created the table yet.
                Path(uri).mkdir(parents=True, exist_ok=True)
            self._files = fs.PyFileSystem(DeltaStorageHandler(uri, options))
        self._shown = f"the table {uri}"
        self._row_type = row_type
        self._names = row_type.get_field_names()
        self._schema = schema
        self._partition_by = partition_by
        self._data_names = [name for name in self._names if name not in partition_by]
        self._places = [self._names.index(name) for name in partition_by]
        # A new id per attempt of each writer: numbers need not continue those of an earlier
        # attempt.
        self._application_id = f"penstock-{uuid.uuid4()}"
        self._number = 0
        self._rows: dict[tuple[Any, ...], list[Any]] = {}
        self._kept = 0
        self._open: dict[tuple[Any, ...], _OpenFile] = {}
        self._finished: list[tuple[str, int, dict[str, str | None], int, int]] = []

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a row."""
        del context
        try:
            values = field_values(element, self._names)
        except Misfit as misfit:
            raise note_place(FormatError(f"DeltaSink: {misfit}"), self._shown) from None
        key = tuple([values[place] for place in self._places])
        self._rows.setdefault(key, []).append(values)
        self._kept += 1
        if self._kept >= _BATCH_ROWS:
            self._write_rows()

    def flush(self, end_of_input: bool) -> None:
        """Do nothing: `prepare_commit` follows, and finishes the files."""

    def prepare_commit(self) -> Iterable[Committable]:
        """Finish the files, which become part of the table at the commit."""
        self._write_rows()
        for key in list(self._open):
            self._finish(key)
        files, self._finished = self._finished, []
        if not files:
            return []
        self._number += 1
        return [(self._application_id, self._number, files)]

    def close(self) -> None:
        """Close the open files; the vacuum of the table removes them."""
        for opened in self._open.values():
            opened.writer.close()
            opened.stream.close()
        self._open = {}

    def _write_rows(self) -> None:
        import pyarrow as pa

        rows_of, self._rows, self._kept = self._rows, {}, 0
        for key, rows in rows_of.items():
            with meant_for(self._shown):
                batch = columns_of(rows, self._row_type, self._schema)
            opened = self._open.get(key) or self._opened(key, batch)
            data = pa.Table.from_batches([batch]).select(self._data_names)
            opened.writer.write_table(data)
            opened.rows += len(rows)

    def _opened(self, key: tuple[Any, ...], batch: Any) -> _OpenFile:
        from pyarrow import parquet

        if len(self._open) >= _MOST_OPEN:
            self._finish(next(iter(self._open)))
        values = {
            name: _text_of(batch.column(place)[0].as_py())
            for name, place in zip(self._partition_by, self._places, strict=True)
        }
        path = f"part-{uuid.uuid4()}.parquet"
        stream = self._files.open_output_stream(path)
        schema = batch.select(self._data_names).schema
        self._open[key] = opened = _OpenFile(
            path, stream, parquet.ParquetWriter(stream, schema), values
        )
        return opened

    def _finish(self, key: tuple[Any, ...]) -> None:
        opened = self._open.pop(key)
        opened.writer.close()
        size = opened.stream.tell()
        opened.stream.close()
        now_ms = time.time_ns() // 1_000_000
        self._finished.append((opened.path, size, opened.values, now_ms, opened.rows))


def _text_of(value: Any) -> str | None:
    """Return the value of a partition as Delta's protocol writes it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class _DeltaCommitter(Committer[Any]):
    """Commits the files of a checkpoint as one version of the table."""

    def __init__(
        self,
        uri: str,
        options: dict[str, str] | None,
        schema: Any,
        partition_by: list[str],
    ) -> None:
        library = delta_library("DeltaSink")
        self._partition_by = partition_by
        self._schema = library.Schema.from_arrow(schema)
        with opening_of(uri, "DeltaSink", SinkError):
            try:
                # `is_deltatable` would hold the GIL until the store responds.
                self._table = library.DeltaTable(uri, storage_options=options)
            except library.exceptions.TableNotFoundError:
                library.DeltaTable.create(
                    uri,
                    self._schema,
                    partition_by=partition_by,
                    storage_options=options,
                    mode="ignore",
                )
                self._table = library.DeltaTable(uri, storage_options=options)
        self._check(uri)

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Commit the files that are not in the table yet."""
        from deltalake import CommitProperties, Transaction

        self._table.update_incremental()
        numbers: dict[str, int] = {}
        found: list[Any] = []
        for request in requests:
            application_id, number, content = request.get_committable()
            if (self._table.transaction_version(application_id) or 0) >= number:
                request.signal_already_committed()
                continue
            numbers[application_id] = max(number, numbers.get(application_id, 0))
            found.append(content)
        if found:
            transactions = [Transaction(name, number) for name, number in numbers.items()]
            self._apply(found, CommitProperties(app_transactions=transactions))

    def _apply(self, contents: list[Any], properties: Any) -> None:
        """Add the files of writers, in one version."""
        from deltalake.transaction import AddAction

        self._table.create_write_transaction(
            [
                AddAction(path, size, values, at_ms, True, json.dumps({"numRecords": rows}))
                for files in contents
                for path, size, values, at_ms, rows in files
            ],
            mode="append",
            schema=self._schema,
            partition_by=self._partition_by,
            commit_properties=properties,
        )

    def _check(self, uri: str) -> None:
        """Reject a table with other columns.

        Raises:
            SinkError: The table has other columns or partitions.
        """
        have = {field.name: field.type.to_json() for field in self._table.schema().fields}
        want = {field.name: field.type.to_json() for field in self._schema.fields}
        if have != want:
            raise SinkError(f"the table {uri} has the columns {have}, and the sink has {want}")
        partitions = self._table.metadata().partition_columns
        if partitions != self._partition_by:
            raise SinkError(
                f"the table {uri} is partitioned by {partitions}, and the sink by "
                f"{self._partition_by}"
            )


class _DeltaMerger(_DeltaCommitter):
    """Merges the changes of a checkpoint, in one version."""

    def __init__(
        self,
        uri: str,
        options: dict[str, str] | None,
        schema: Any,
        partition_by: list[str],
        key: list[str],
    ) -> None:
        super().__init__(uri, options, schema, partition_by)
        self._names = schema.names
        self._key = key

    def _apply(self, contents: list[Any], properties: Any) -> None:
        """Merge the changes of writers, in one version."""
        columns = {_quoted(name): f"source.{_quoted(name)}" for name in self._names}
        same = (f"target.{_quoted(name)} = source.{_quoted(name)}" for name in self._key)
        (
            self._table.merge(
                last_changes(contents, self._key),
                " AND ".join(same),
                source_alias="source",
                target_alias="target",
                commit_properties=properties,
            )
            .when_matched_delete(predicate=f"source.{DELETED}")
            .when_matched_update(updates=columns)
            .when_not_matched_insert(updates=columns, predicate=f"NOT source.{DELETED}")
            .execute()
        )


def _quoted(name: str) -> str:
    """Return the name of a column, quoted for Delta's expressions."""
    return f"`{name}`"
