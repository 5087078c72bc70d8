"""IcebergSink: appends to tables of Apache Iceberg, by the package pyiceberg (beyond PyFlink).

A writer writes data files that no snapshot of the table names yet.  Before a checkpoint it
finishes them; the only committer adds them to the table once the checkpoint is complete.  Each
snapshot stores, in its properties, the last transaction number of each writer, so that committables
repeated after a failure are recognised.
"""

from __future__ import annotations

import json
import logging
import pickle
import time
import uuid
import warnings
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
from penstock.connectors.iceberg.library import (
    check_catalog,
    check_table_name,
    iceberg_library,
    opening_of,
)
from penstock.connectors.writer_sink import (
    CommittingSinkWriter,
    PythonSink,
    SinkWriter,
    WriterInitContext,
)
from penstock.errors import FormatError, SinkError
from penstock.formats.arrow_types import columns_of, row_type_of, table_schema
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit, meant_for, note_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.common.composite_types import RowTypeInfo

logger = logging.getLogger(__name__)

#: Rows that are converted to columns at a time.
_BATCH_ROWS: Final = 8192
#: Bytes of columns after which files are written; the size of the files of a long interval.
_FILE_BYTES: Final = 128 << 20
#: The snapshot property with the last transaction number of each writer.
_COMMITTED: Final = "penstock.committed"
_TRIES: Final = 10
_FIRST_PAUSE_S: Final = 0.05

#: The committable of a writer: the writer's id, the number of the transaction, and its files as
#: pyiceberg describes them, pickled.
Committable = tuple[str, int, bytes]


@checks_arguments
class IcebergSink(PythonSink[Any], SupportsGlobalCommitter[Any]):
    """Appends rows to a table of Apache Iceberg, or merges changes, exactly once.

    Each checkpoint with rows becomes one snapshot of the table.  Without checkpoints all rows
    are committed when the input ends.
    """

    def __init__(
        self,
        table: str,
        schema: Any,
        *,
        catalog: Mapping[str, str],
        name: str = "default",
        key: Sequence[str] = (),
    ) -> None:
        """Create a sink.

        Args:
            table: The table, with its namespace: ``shop.orders``.  A missing table is created,
                without partitions; the namespace must exist.
            schema: A row type, as ``Types.ROW_NAMED`` describes it, or an Arrow schema.
            catalog: The properties of the catalog as pyiceberg's ``load_catalog`` takes them, for
                instance ``{"type": "rest", "uri": "https://…"}``.
            name: The name of the catalog.
            key: Names of columns by which changes are merged: ``+I`` and ``+U`` insert or
                replace the row of a key, ``-D`` and ``-U`` delete it; without them all rows are
                appended, whatever their kind.

        Raises:
            InvalidProgramError: The schema is invalid, the table has no namespace, or a key column
                is not allowed.
            DependencyError: pyiceberg or pyarrow is not installed.
        """
        super().__init__()
        iceberg_library("IcebergSink")
        check_table_name(table, "IcebergSink")
        check_catalog(catalog, name, "IcebergSink")
        row_type = row_type_of(schema, "IcebergSink")
        self._row_type: RowTypeInfo = row_type
        self._table = _Table(
            table,
            table_schema(schema, row_type),
            name,
            dict(catalog),
        )

        self._key = ChangeKey("IcebergSink", key, self._table.schema.names) if key else None

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key selector, which keeps the changes of a key in order."""
        return self._key

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask, and the table if it is missing."""
        del context
        if self._key is not None:
            return ChangeBatchWriter(
                "IcebergSink", self._table.name, self._row_type, self._table.schema, self._key
            )
        return _IcebergWriter(self._table, self._row_type)

    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        """Create the only committer, and the table if it is missing."""
        del context
        if self._key is not None:
            return _IcebergMerger(self._table, self._key.names)
        return _IcebergCommitter(self._table)


class _Table:
    """A table, as the job declares it."""

    def __init__(self, name: str, schema: Any, catalog: str, properties: dict[str, str]) -> None:
        self.name = name
        self.schema = schema
        self._catalog = catalog
        self._properties = properties

    def load(self) -> Any:
        """Load the table's current state; create the table if it is missing.

        Raises:
            SinkError: The table has other columns, or the catalog fails.
        """
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible

        library = iceberg_library("IcebergSink")
        with opening_of(self.name, self._catalog, "IcebergSink", SinkError):
            catalog = library.load_catalog(self._catalog, **self._properties)
            try:
                table = catalog.load_table(self.name)
            except NoSuchTableError:
                table = catalog.create_table_if_not_exists(self.name, schema=self.schema)
        try:
            _check_pyarrow_schema_compatible(table.schema(), self.schema)
        except ValueError as error:
            raise SinkError(
                f"the table {self.name} has other columns than the sink: {error}"
            ) from error
        return table


class _IcebergWriter(CommittingSinkWriter[Any, Committable]):
    """Writes the rows between two checkpoints into files."""

    def __init__(self, table: _Table, row_type: RowTypeInfo) -> None:
        self._shown = f"the table {table.name}"
        self._schema = table.schema
        self._table = table.load()
        self._row_type = row_type
        self._names = row_type.get_field_names()
        # A new id per attempt of each writer: numbers need not continue those of an earlier
        # attempt.
        self._application_id = f"penstock-{uuid.uuid4()}"
        self._number = 0
        self._rows: list[Any] = []
        self._batches: list[Any] = []
        self._batches_bytes = 0
        self._files: list[Any] = []

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a row."""
        del context
        try:
            self._rows.append(field_values(element, self._names))
        except Misfit as misfit:
            raise note_place(FormatError(f"IcebergSink: {misfit}"), self._shown) from None
        if len(self._rows) >= _BATCH_ROWS:
            self._end_batch()
            if self._batches_bytes >= _FILE_BYTES:
                self._write_files()

    def flush(self, end_of_input: bool) -> None:
        """Do nothing: `prepare_commit` follows, and finishes the files."""

    def prepare_commit(self) -> Iterable[Committable]:
        """Finish the files, which become part of the table at the commit."""
        self._end_batch()
        self._write_files()
        files, self._files = self._files, []
        if not files:
            return []
        self._number += 1
        return [(self._application_id, self._number, pickle.dumps(files))]

    def _end_batch(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            with meant_for(self._shown):
                batch = columns_of(rows, self._row_type, self._schema)
            self._batches.append(batch)
            self._batches_bytes += batch.nbytes

    def _write_files(self) -> None:
        # pyiceberg has no public function that writes files without committing them; pyproject.toml
        # bounds its releases because of this call and the check of the columns.
        import pyarrow as pa
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        batches, self._batches, self._batches_bytes = self._batches, [], 0
        if batches:
            self._files.extend(
                _dataframe_to_data_files(
                    self._table.metadata,
                    pa.Table.from_batches(batches),
                    self._table.io,
                    write_uuid=uuid.uuid4(),
                )
            )


class _IcebergCommitter(Committer[Any]):
    """Commits the files of a checkpoint as one snapshot of the table."""

    def __init__(self, table: _Table) -> None:
        self._table = table.load()
        self._name = table.name
        self._numbers: dict[str, int] = {}
        self._walked_to: int | None = None

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Commit the files that are not in the table yet.

        Raises:
            SinkError: Concurrent commits conflicted on every try.
        """
        from pyiceberg.exceptions import CommitFailedException

        pause_s = _FIRST_PAUSE_S
        for tries_left in range(_TRIES - 1, -1, -1):
            self._table.refresh()
            try:
                self._commit(requests)
            except CommitFailedException as error:
                if tries_left == 0:
                    raise SinkError(
                        f"{self._name} rejected all commits in {_TRIES} attempts: {error}"
                    ) from error
                logger.info("committing to %s again: %s", self._name, error)
                time.sleep(pause_s)
                pause_s *= 2
            else:
                return

    def _commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        committed = self._committed()
        numbers: dict[str, int] = {}
        found: list[bytes] = []
        for request in requests:
            application_id, number, content = request.get_committable()
            if committed.get(application_id, 0) >= number:
                request.signal_already_committed()
                continue
            numbers[application_id] = max(number, numbers.get(application_id, 0))
            found.append(content)
        if found:
            self._apply(found, {_COMMITTED: json.dumps(numbers)})

    def _apply(self, contents: list[bytes], properties: dict[str, str]) -> None:
        """Add the files of writers, in one snapshot."""
        with (
            self._table.transaction() as transaction,
            transaction.update_snapshot(properties).fast_append() as append,
        ):
            for pickled in contents:
                for file in pickle.loads(pickled):
                    append.append_data_file(file)

    def _committed(self) -> dict[str, int]:
        """Return each writer's last committed transaction number in the table's history."""
        metadata = self._table.metadata
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        newest = current = metadata.current_snapshot_id
        # Earlier calls have searched the older snapshots.
        while current in snapshots and current != self._walked_to:
            snapshot = snapshots.pop(current)
            summary = snapshot.summary
            noted = None if summary is None else summary.additional_properties.get(_COMMITTED)
            for application_id, number in json.loads(noted or "{}").items():
                known = self._numbers.get(application_id, 0)
                self._numbers[application_id] = max(number, known)
            current = snapshot.parent_snapshot_id
        self._walked_to = newest
        return self._numbers


class _IcebergMerger(_IcebergCommitter):
    """Merges the changes of a checkpoint: files that contain rows of their keys are rewritten."""

    def __init__(self, table: _Table, key: list[str]) -> None:
        super().__init__(table)
        self._schema = table.schema
        self._key = key

    def _apply(self, contents: list[bytes], properties: dict[str, str]) -> None:
        """Merge the changes of writers, in one commit."""
        import pyarrow.compute as pc
        from pyiceberg.table.upsert_util import create_match_filter

        changes = last_changes(contents, self._key)
        rows = changes.filter(pc.invert(changes.column(DELETED)))
        with warnings.catch_warnings(), self._table.transaction() as transaction:
            warnings.filterwarnings("ignore", "Delete operation did not match any records")
            transaction.delete(create_match_filter(changes, self._key), properties)
            if rows.num_rows:
                transaction.append(rows.select(self._schema.names).cast(self._schema), properties)
