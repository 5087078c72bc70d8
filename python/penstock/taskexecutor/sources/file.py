"""Lines of text files, divided among the subtasks by ranges of bytes."""

from __future__ import annotations

import codecs
import time
import zlib
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    NOTHING_AVAILABLE,
    IteratorSource,
    StreamOperator,
)
from penstock.taskexecutor.sources.file_splits import (
    FileSplit,
    SplitLines,
    can_be_cut,
    divide,
    find_files,
)
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitBySplit
from penstock.taskexecutor.sources.wait import SourceWait

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.graph import operators
    from penstock.taskexecutor.task.operator_context import OperatorContext


def create_file_source(
    context: OperatorContext, descriptor: operators.FileSource
) -> StreamOperator:
    """The lines of this subtask's splits."""
    if descriptor.format != "text_line":
        msg = f"{context.name!r} reads files of the unknown format {descriptor.format!r}"
        raise PenstockError(msg)
    interval_ms = descriptor.discovery_interval_ms
    if interval_ms is not None:
        source = ContinuousTextFileSource(descriptor, interval_ms / 1000)
        return with_watermarks(context, descriptor, source)
    return with_watermarks(context, descriptor, TextFileSource(descriptor))


class TextFileSource(SplitBySplit, IteratorSource):
    """Reads the splits whose number, modulo the number of shares, is that of the subtask's."""

    def __init__(self, descriptor: operators.FileSource) -> None:
        """Creates the source; files are looked for when it is opened."""
        super().__init__(iter(()))
        self.paths = tuple(descriptor.paths)
        self.charset = codecs.lookup(descriptor.charset or "utf-8").name
        self.splittable = descriptor.splittable and can_be_cut(self.charset)
        self.lines: SplitLines | None = None

    def divide(self, share: Share) -> Iterable[FileSplit]:
        """Looks for the files and cuts them."""
        splits = divide(find_files(self.paths), share.of if self.splittable else 1)
        return splits[share.number :: share.of]

    def begin(self, split: FileSplit) -> None:
        """Goes on with this split."""
        self.lines = SplitLines(split, self.charset)
        self.iterator = iter(self.lines)

    def rest(self) -> FileSplit:
        """The split that is being read, from the next line on."""
        assert self.lines is not None, "begun"
        return self.lines.rest()

    def close(self) -> None:
        """Releases what was opened."""
        if self.lines is not None:
            self.lines.close()


class ContinuousTextFileSource(TextFileSource):
    """Reads new files as they appear; never ends.

    The name of a file, not its place in a listing that changes, says which subtask reads it.
    """

    looks_for_splits = True

    def __init__(self, descriptor: operators.FileSource, interval_s: float) -> None:
        """Creates the source, which looks for files so often."""
        super().__init__(descriptor)
        self.interval_s = interval_s
        self.wait = SourceWait()
        self.next_discovery = 0.0

    def divide(self, share: Share) -> Iterable[FileSplit]:
        """Nothing yet: the first step looks for files."""
        del share
        return ()

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        status = super().emit_next(limit)
        if status != END_OF_DATA:
            return status
        if self.wait.cancelled:
            return END_OF_DATA
        now = time.monotonic()
        if now >= self.next_discovery:
            self.next_discovery = now + self.interval_s
            for path, size in find_files(self.paths, must_exist=False):
                if path not in self.taken and self._is_mine(path):
                    self.taken.add(path)
                    self.waiting.append(FileSplit(path, 0, size))
            self.begin_next()
        return NOTHING_AVAILABLE

    def taken_here(self) -> Iterable[str]:
        """The files that this subtask reads, or would read if another one had not."""
        return [path for path in sorted(self.taken) if self._is_mine(path)]

    def wait_available(self, timeout_ms: int) -> None:
        """Blocks until there may be more, or the time is over."""
        rest_ms = max(0.0, (self.next_discovery - time.monotonic()) * 1000)
        self.wait.wait(min(timeout_ms, rest_ms))

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """Ends the source early, from any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Releases what was opened."""
        super().close()
        self.wait.close()

    def _is_mine(self, path: str) -> bool:
        environment = self.context.environment
        number: int = zlib.crc32(path.encode()) % environment.parallelism
        return number == environment.subtask
