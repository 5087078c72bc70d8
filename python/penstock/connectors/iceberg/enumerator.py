"""Finds the files of a table's snapshots, and assigns them to readers one by one, on request."""

from __future__ import annotations

import logging
import pickle
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.connectors.iceberg.reader import TableFile
from penstock.connectors.split_source import SplitEnumerator, SplitEnumeratorContext
from penstock.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connectors.iceberg.description import TableDescription

logger = logging.getLogger(__name__)

#: The newest snapshot found, and its files.
_Found = tuple[int | None, list[TableFile]]


class IcebergEnumerator(SplitEnumerator[TableFile]):
    """Searches for snapshots once, or periodically."""

    def __init__(
        self,
        source: TableDescription,
        context: SplitEnumeratorContext[TableFile],
        state: dict[str, Any] | None = None,
    ) -> None:
        """Create an enumerator, or restore it from the result of `snapshot_state`."""
        self._source, self._context = source, context
        self._files: deque[TableFile] = deque()
        self._asking: deque[int] = deque()
        self._has_looked = state is not None
        self._snapshot = source.first_snapshot
        if state is not None:
            self._snapshot = state["snapshot"]
            self._files.extend(TableFile(*fields) for fields in state["files"])

    def start(self) -> None:
        """Search for files, unless a single search is complete."""
        if not self._has_looked:
            self._context.call_async(self._first_files, self._on_found)
        elif self._source.discovery_interval_ms is not None:
            self._look(0)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Assign a file, at once or when one is found."""
        del requester_hostname
        self._asking.append(subtask_id)
        self._assign()

    def add_splits_back(self, splits: list[TableFile], subtask_id: int) -> None:
        """Assign the files to other readers."""
        del subtask_id
        self._files.extendleft(reversed(splits))
        self._assign()

    def add_reader(self, subtask_id: int) -> None:
        """Drop requests of the subtask's former attempt: the new reader sends its own."""
        while subtask_id in self._asking:
            self._asking.remove(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return the newest snapshot, and the files that are not assigned."""
        del checkpoint_id
        if not self._has_looked:
            return None
        files = [(file.name, file.task, file.rows) for file in self._files]
        return {"snapshot": self._snapshot, "files": files}

    def _look(self, delay_ms: int) -> None:
        snapshot = self._snapshot
        self._context.call_async(lambda: self._new_files(snapshot), self._on_found, delay_ms)

    def _on_found(self, found: _Found | None, error: BaseException | None) -> None:
        interval_ms = self._source.discovery_interval_ms
        if error is not None:
            if not self._has_looked or interval_ms is None or isinstance(error, SourceError):
                raise error
            logger.warning(
                "cannot look for snapshots of %s: %s; retrying in %d ms",
                self._source.table,
                error,
                interval_ms,
            )
        elif found is not None:
            self._has_looked = True
            self._snapshot, files = found
            self._files.extend(files)
            self._assign()
        if interval_ms is not None:
            self._look(interval_ms)

    def _assign(self) -> None:
        readers = self._context.registered_readers()
        is_over = self._has_looked and self._source.discovery_interval_ms is None
        while self._asking and (self._files or is_over):
            subtask = self._asking.popleft()
            if subtask not in readers:
                continue
            if self._files:
                self._context.assign_split(self._files.popleft(), subtask)
            else:
                self._context.signal_no_more_splits(subtask)

    # ---- in another thread -------------------------------------------------------------------

    def _first_files(self) -> _Found:
        source, table = self._source, self._source.opened()
        if source.first_snapshot is None or not source.with_snapshot:
            return source.first_snapshot, []
        if table.snapshot_by_id(source.first_snapshot) is None:
            raise SourceError(
                f"IcebergSource: {source.table} no longer has the snapshot "
                f"{source.first_snapshot}: retain snapshots until jobs have started"
            )
        scan = table.scan(row_filter=source.row_filter, snapshot_id=source.first_snapshot)
        return source.first_snapshot, _files(scan.plan_files(), source.first_snapshot)

    def _new_files(self, behind: int | None) -> _Found:
        from pyiceberg.table.snapshots import Operation, ancestors_between_ids

        source, table = self._source, self._source.loaded()
        newest = table.current_snapshot()
        if newest is None or newest.snapshot_id == behind:
            return behind, []
        snapshots = list(ancestors_between_ids(behind, newest.snapshot_id, table.metadata))
        if behind is not None and snapshots[-1].parent_snapshot_id != behind:
            raise SourceError(
                f"IcebergSource: the history of {source.table} does not lead from snapshot "
                f"{behind} to {newest.snapshot_id}: snapshots in between were expired before they "
                "were read, or the table was rolled back; start without a checkpoint, from a "
                "snapshot"
            )
        for snapshot in snapshots:
            operation = None if snapshot.summary is None else snapshot.summary.operation
            if operation in (Operation.OVERWRITE, Operation.DELETE):
                raise SourceError(
                    f"IcebergSource: snapshot {snapshot.snapshot_id} of {source.table} is "
                    f"not an append ({operation.value}): deleted rows cannot be emitted; start "
                    "without a checkpoint, from that snapshot"
                )
        scan = table.incremental_append_scan(
            from_snapshot_id_exclusive=behind,
            to_snapshot_id_inclusive=newest.snapshot_id,
            row_filter=source.row_filter,
        )
        return newest.snapshot_id, _files(scan.plan_files(), newest.snapshot_id)


def _files(tasks: Iterable[Any], snapshot: int) -> list[TableFile]:
    return [TableFile(f"{snapshot}:{task.file.file_path}", pickle.dumps(task), 0) for task in tasks]
