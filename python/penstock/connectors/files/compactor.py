"""The compactor of FileSink, between writers and committers: it merges small files into large ones.

All files of a bucket are sent to the same subtask.  The files stay hidden, and their names are in
the operator's state until the strategy decides to compact them.  Threads compact them between two
barriers; the results are sent to the committer before the next barrier.  The committer removes the
source files once the new file has its final name, so that an earlier checkpoint finds them until
then.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import Types
from penstock.connectors.committer import CommittableSummary, CommittableWithLineage
from penstock.connectors.files.compaction import FileCompactor
from penstock.connectors.files.compaction_run import Compaction
from penstock.connectors.files.part_folders import folder_of
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.serialization.versioned_form import VersionedForm
from penstock.taskexecutor.sinks.writer import CommittableEmitter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connectors.files.part_file import PendingFile
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_STATE: Final = "files-to-compact"

_FORM: Final = VersionedForm("files to be put together", ("bucket", "files", "is_due"))

_LOOK_EVERY_S: Final = 0.1


def create_file_compactor(
    context: OperatorContext, descriptor: operators.FileCompactor
) -> CommittableEmitter:
    """Create the operator that compacts the files of a FileSink."""
    return FileCompactorOperator(context, descriptor)


@dataclass
class _Group:
    """Files of a bucket that are merged into one.

    Attributes:
        bucket: Their folder, relative to the sink's.
        files: The files, in the order of their arrival.
        result: The future of the merged file, or of None if all files were committed before;
            None until a thread is started.
    """

    bucket: str
    files: list[PendingFile] = field(default_factory=list)
    result: Future[PendingFile | None] | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class FileCompactorOperator(CommittableEmitter):
    """Stores files until the strategy decides to compact them, and emits the results.

    A group that is due at one barrier must be ready at the next: if the writers are faster than
    the threads, the operator waits there.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.FileCompactor) -> None:
        """Create the operator; without a strategy it forwards new and restored files."""
        super().__init__()
        self._sink = descriptor.sink
        self._strategy = descriptor.strategy
        self._compactor = descriptor.compactor
        self._folder = folder_of(self._sink.base_path, context.environment)
        self._files = context.environment.files
        threshold = None if self._strategy is None else self._strategy.size_threshold_bytes
        self._limit_bytes = min(self._folder.max_part_bytes, threshold or 1 << 62)
        self._checkpoints = 0
        self._open: dict[str, _Group] = {}
        self._due: list[_Group] = []
        self._ready: list[PendingFile] = []
        self._stop = Event()
        self._threads: ThreadPoolExecutor | None = None
        self._state: Any = None

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the files of a checkpoint."""
        descriptor = ListStateDescriptor(_STATE, Types.PICKLED_BYTE_ARRAY())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        for bucket, files, is_due in map(_FORM.read, self._state.get()):
            if is_due:
                self._due.append(_Group(bucket, files))
            else:
                self._open.setdefault(bucket, _Group(bucket)).files.extend(files)

    def open(self) -> None:
        """Compact the files that were due when the checkpoint was taken."""
        if self._strategy is None:
            groups = [*self._due, *self._open.values()]
            self._ready = [file for group in groups for file in group.files]
            self._due, self._open = [], {}
            return
        self._threads = ThreadPoolExecutor(
            self._strategy.num_threads, thread_name_prefix="file-compactor"
        )
        for group in self._due:
            self._begin(group)

    def process(self, value: Any, timestamp: int) -> None:
        """Store a file, or forward it if it is not compacted."""
        del timestamp
        if isinstance(value, CommittableSummary):
            return
        assert isinstance(value, CommittableWithLineage)
        file: PendingFile = value.committable
        if self._strategy is None or self._compactor.kind == FileCompactor.IDENTICAL:
            self._ready.append(file)
            return
        bucket = self._folder.bucket_of(file.final_path)
        group = self._open.get(bucket)
        if group is not None and group.size_bytes + file.size_bytes > self._folder.max_part_bytes:
            self._end_group(bucket)
            group = None
        if group is None:
            group = self._open[bucket] = _Group(bucket)
        group.files.append(file)
        if group.size_bytes >= self._limit_bytes:
            self._end_group(bucket)

    def flush(self, *, end_of_input: bool) -> None:
        """Wait for the groups that were due before, and start those that are due now."""
        self._take_results()
        if self._strategy is None:
            return
        every = self._strategy.num_checkpoints
        self._checkpoints += 1
        if end_of_input or (every is not None and self._checkpoints >= every):
            self._checkpoints = 0
            for bucket in list(self._open):
                self._end_group(bucket)
        if end_of_input:
            self._take_results()

    def prepare_commit(self) -> Iterable[PendingFile]:
        """Return the files to commit."""
        ready, self._ready = self._ready, []
        return ready

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the files that were not yet emitted."""
        del context
        groups = [(group, True) for group in self._due]
        groups += [(group, False) for group in self._open.values()]
        self._state.update(
            _FORM.write(group.bucket, group.files, is_due) for group, is_due in groups
        )

    def close(self) -> None:
        """End the threads, and remove results that were not emitted."""
        self._stop.set()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        for group in self._due:
            result = group.result
            if result is not None and not result.cancelled() and result.exception() is None:
                made = result.result()
                if made is not None and made not in group.files:
                    # A checkpoint still refers to its source files, which stay.
                    with suppress(OSError):
                        self._folder.give_up(made, ())
        self._due = []

    def _end_group(self, bucket: str) -> None:
        group = self._open.pop(bucket)
        self._due.append(group)
        self._begin(group)

    def _begin(self, group: _Group) -> None:
        assert self._threads is not None, "there is a strategy"
        group.result = self._threads.submit(self._compacted, group)

    def _compacted(self, group: _Group) -> PendingFile | None:
        """Merge the files of a group; runs in a thread of the pool."""
        compaction = Compaction(self._sink, self._compactor, self._files, self._stop)
        # If the job starts from an old savepoint, a later run may have committed these files
        # already; the committer makes the same check.
        files = [file for file in group.files if compaction.finds(file)]
        if len(files) < 2:
            return files[0] if files else None
        first = files[0]
        name = f"compacted-{first.final_path.rpartition('/')[2]}"
        part = self._folder.begin(group.bucket, name, time.time_ns() // 1_000_000)
        try:
            compaction.write(files, part)
            made = part.close_for_commit()
        except BaseException:
            part.dispose(is_kept=False)
            raise
        used = [path for file in files for path in (file.path, *file.segments)]
        return replace(made, segments=(*made.segments, *used))

    def _take_results(self) -> None:
        due, self._due = self._due, []
        while due:
            result = due[0].result
            assert result is not None, "begun"
            # Waits in short steps, so that a cancelled task can be interrupted.
            while not wait([result], _LOOK_EVERY_S).done:
                pass
            try:
                made = result.result()
            except BaseException as error:
                self._due = due
                if isinstance(error, SinkError):
                    raise
                files = due[0].files
                raise SinkError(
                    f"the file sink cannot compact {len(files)} files, the first of which would "
                    f"become {files[0].final_path}: {error}"
                ) from error
            due.pop(0)
            if made is not None:
                self._ready.append(made)
