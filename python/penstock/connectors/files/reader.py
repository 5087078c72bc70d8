"""Records of files, divided among the subtasks by ranges of bytes."""

from __future__ import annotations

import logging
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any

from penstock.columns.column_batch import ColumnBatch
from penstock.connectors.files.splits import (
    FileSplit,
    OneStore,
    SplitElements,
    divide,
    find_files,
    whole_file,
)
from penstock.formats.file_format import DeadLetter
from penstock.formats.lines import TextLines
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    Output,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.sources.adaptive_emission import (
    AdaptiveBatches,
    AdaptiveEmission,
    AdaptiveMerging,
    batch_limit,
)
from penstock.taskexecutor.sources.column_outputs import batch_rows
from penstock.taskexecutor.sources.source_wait import SourceWait
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitBySplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connectors.files.splits import Stores
    from penstock.formats.file_format import FileFormat
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


logger = logging.getLogger(__name__)


def create_file_source(
    context: OperatorContext, descriptor: operators.FileSource
) -> StreamOperator:
    """Return the records of this subtask's splits."""
    source: FileElements
    interval_ms = descriptor.discovery_interval_ms
    if interval_ms is None:
        source = FileElements(context, descriptor)
    else:
        source = ContinuousFileElements(context, descriptor, interval_ms / 1000)
    return with_watermarks(context, descriptor, source)


class _BatchSource(SourceOperator):
    """Source that emits the records of `SplitElements`, many at once.

    Attributes:
        side_output: The output of dead letters; the source's own output if None.
        has_dead_letters: Whether the records may include dead letters or marks of skipped input.
        errors: The counter of both.
    """

    elements: SplitElements | None = None
    side_output: Output | None = None
    has_dead_letters = False
    errors: Any = None
    #: Records of a batch of columns at most; 0 if records are emitted one by one.
    batch_rows = 0

    def __init__(self) -> None:
        """Create a source without a split."""
        super().__init__()
        self.emission = AdaptiveEmission()
        self.batch_emission = AdaptiveBatches()
        self.merging = AdaptiveMerging()

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most without blocking, or more as columns."""
        elements = self.elements
        if elements is not None and elements.are_columns:
            self.batch_emission.emit(batch_limit(limit), self._emit)
        elif elements is not None:
            emission = self.merging if elements.are_merged else self.emission
            emission.emit(limit, self._emit)
        return END_OF_DATA if elements is None or elements.is_exhausted else MORE_AVAILABLE

    def _emit(self, limit: int) -> int:
        assert self.elements is not None, "begun"
        number, taken = self.elements.take(min(limit, self.batch_rows) or limit)
        if number == 0:
            return 0
        # Blocks of both kinds may follow each other within a step.
        if isinstance(taken, ColumnBatch):
            self.output.collect_batch(taken)
        elif self.has_dead_letters:
            self._emit_each(taken)
        else:
            self.output.collect_all(taken, MIN_TIMESTAMP)
        return number

    def _emit_each(self, taken: Iterable[Any]) -> None:
        collect, side_output = self.output.collect, self.side_output or self.output
        for element in taken:
            if type(element) is DeadLetter:
                self.errors.inc()
                if element.tag is not None:
                    side_output.collect_side(element.tag.tag_id, element.row, MIN_TIMESTAMP)
            else:
                collect(element, MIN_TIMESTAMP)


class FileElements(SplitBySplit, _BatchSource):
    """Reads the splits whose number, modulo the number of shares, is that of the subtask's."""

    measure = "Bytes"

    def __init__(self, context: OperatorContext, descriptor: operators.FileSource) -> None:
        """Create the source; it lists the files when it is opened."""
        super().__init__()
        self.paths = tuple(descriptor.paths)
        self.format: FileFormat = descriptor.format or TextLines(descriptor.charset or "utf-8")
        self.splittable = descriptor.splittable and self.format.can_be_cut()
        self.has_dead_letters = self.format.has_dead_letters
        store = descriptor.store
        self.files: Stores = context.environment.files if store is None else OneStore(store)

    def open(self) -> None:
        """Choose rows or columns, and list the files."""
        if self.has_dead_letters:
            group = self.context.runtime_context.get_metrics_group()
            self.errors = group.counter("numRecordsInErrors")
        if self.context.evaluation.has_columns:
            self.batch_rows = batch_rows(self.output)
        if self.batch_rows:
            self.format = self.format.in_columns()
        counts = self.format.block_counts
        if counts is not None:
            group = self.context.metric_group()
            group.gauge("numBlocksInColumns", lambda: counts.in_columns)
            group.gauge("numBlocksInRows", lambda: counts.in_rows)
        super().open()

    def divide(self, share: Share) -> Iterable[FileSplit]:
        """List the files and divide them into splits."""
        found = find_files(self.paths, self.files)
        splits = divide(found, share.of if self.splittable else 1, self.format)
        return splits[share.number :: share.of]

    def begin(self, split: FileSplit) -> None:
        """Begin to read a split."""
        self.elements = SplitElements(split, self.format, self.files)

    def size(self, split: FileSplit) -> int | None:
        """Return the size of a split in bytes; None if unknown, as for compressed files."""
        return None if split.end == sys.maxsize else split.end - split.start

    def place(self, split: FileSplit) -> int:
        """Return the place of a split among those of all files."""
        return split.place

    def rest(self) -> FileSplit:
        """Return the unread rest of the current split."""
        assert self.elements is not None, "begun"
        return self.elements.rest()

    def close(self) -> None:
        """Release the open resources."""
        if self.elements is not None:
            self.elements.close()


class ContinuousFileElements(FileElements):
    """Reads new files as they appear; never ends.

    The name of a file, not its place in a listing that changes, says which subtask reads it.
    """

    looks_for_splits = True

    def __init__(
        self, context: OperatorContext, descriptor: operators.FileSource, interval_s: float
    ) -> None:
        """Create the source, which lists the files at this interval."""
        super().__init__(context, descriptor)
        self.interval_s = interval_s
        self.wait = SourceWait()
        self.next_discovery = 0.0
        # All subtasks see the same files; only one of them logs.
        self.has_told = context.environment.subtask > 0

    def divide(self, share: Share) -> Iterable[FileSplit]:
        """Return no splits: the first step lists the files."""
        del share
        return ()

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most without blocking."""
        status = super().emit_next(limit)
        if status != END_OF_DATA:
            return status
        if self.wait.cancelled:
            return END_OF_DATA
        now = time.monotonic()
        if now >= self.next_discovery:
            self.next_discovery = now + self.interval_s
            found = find_files(self.paths, self.files, must_exist=False)
            if not found and not self.taken and not self.has_told:
                self.has_told = True
                logger.warning(
                    "there is no file in %s yet: waiting for some", ", ".join(self.paths)
                )
            for path, size in found:
                if path not in self.taken and self._is_mine(path):
                    self.taken.add(path)
                    self.waiting.append(whole_file(path, size, self.format))
            self.begin_next()
        return NOTHING_AVAILABLE

    def taken_here(self) -> Iterable[str]:
        """Return the taken files that belong to this subtask, even if another one has read them."""
        return [path for path in sorted(self.taken) if self._is_mine(path)]

    def wait_available(self, timeout_ms: int) -> None:
        """Block until new files may exist, or the timeout has passed."""
        rest_ms = max(0.0, (self.next_discovery - time.monotonic()) * 1000)
        self.wait.wait(min(timeout_ms, rest_ms))

    def wakeup(self) -> None:
        """End a wait, from another thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """End the source early, from any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Release the open resources."""
        super().close()
        self.wait.close()

    def _is_mine(self, path: str) -> bool:
        environment = self.context.environment
        number: int = zlib.crc32(path.encode()) % environment.parallelism
        return number == environment.subtask
