"""Lines of text files, divided among the subtasks by ranges of bytes."""

from __future__ import annotations

import codecs
import time
import zlib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError
from penstock.taskexecutor.loop import (
    END_OF_DATA,
    NOTHING_AVAILABLE,
    IteratorSource,
    StreamOperator,
)
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.wait import SourceWait

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from penstock.taskexecutor.operator_context import OperatorContext

_BLOCK_BYTES = 256 * 1024

#: Smaller files are not cut: opening one twice costs more than it gains.
_SMALLEST_SPLIT_BYTES = 4 * 1024 * 1024

#: Charsets in which a line feed is the byte 10 and nothing else is.
_LINE_FEED_IS_A_BYTE = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "iso8859-15"})


class FileSplit(NamedTuple):
    """A range of bytes of a file; the lines that begin in it belong to it."""

    path: str
    start: int
    end: int


def create_file_source(context: OperatorContext) -> StreamOperator:
    """The lines of this subtask's splits.

    Arguments of the descriptor: ``paths``, ``format`` (``text_line``), ``charset``,
    ``splittable`` (whether several subtasks may read one file) and ``discovery_interval_ms``
    (None reads what is there at the start).
    """
    arguments = context.descriptor.arguments
    kind = arguments.get("format", "text_line")
    if kind != "text_line":
        msg = f"{context.name!r} reads files of the unknown format {kind!r}"
        raise PenstockError(msg)
    if arguments.get("discovery_interval_ms") is not None:
        return with_watermarks(context, ContinuousTextFileSource(context))
    return with_watermarks(context, TextFileSource(context))


class TextFileSource(IteratorSource):
    """Reads the splits whose number, modulo the parallelism, is that of the subtask."""

    def __init__(self, context: OperatorContext) -> None:
        """Creates the source; files are looked for when it is opened."""
        super().__init__(iter(()))
        arguments = context.descriptor.arguments
        self.paths = tuple(arguments["paths"])
        self.charset = codecs.lookup(arguments.get("charset") or "utf-8").name
        self.splittable: bool = (
            arguments.get("splittable", True) and self.charset in _LINE_FEED_IS_A_BYTE
        )
        self.subtask = context.environment.subtask
        self.parallelism = context.environment.parallelism
        self.reading: Generator[list[str], None, None] | None = None

    def open(self) -> None:
        """Prepares for elements."""
        splits = divide(find_files(self.paths), self.parallelism if self.splittable else 1)
        self.read(splits[self.subtask :: self.parallelism])

    def read(self, splits: Iterable[FileSplit]) -> None:
        """Goes on with these splits."""
        self.reading = read_splits(splits, self.charset)
        self.iterator = chain.from_iterable(self.reading)

    def close(self) -> None:
        """Releases what was opened."""
        if self.reading is not None:
            self.reading.close()


class ContinuousTextFileSource(TextFileSource):
    """Reads new files as they appear; never ends.

    The name of a file, not its place in a listing that changes, says which subtask reads it.
    """

    def __init__(self, context: OperatorContext) -> None:
        """Creates the source."""
        super().__init__(context)
        self.interval_s = context.descriptor.arguments["discovery_interval_ms"] / 1000
        self.wait = SourceWait()
        self.known: set[str] = set()
        self.next_discovery = 0.0

    def open(self) -> None:
        """Nothing yet: the first step looks for files."""

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        status: int = super().emit_next(limit)
        if status != END_OF_DATA:
            return status
        if self.wait.cancelled:
            return END_OF_DATA
        now = time.monotonic()
        if now >= self.next_discovery:
            self.next_discovery = now + self.interval_s
            new = [f for f in find_files(self.paths, must_exist=False) if f[0] not in self.known]
            self.known.update(path for path, _ in new)
            self.read(FileSplit(path, 0, size) for path, size in new if self._is_mine(path))
        return NOTHING_AVAILABLE

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
        return zlib.crc32(path.encode()) % self.parallelism == self.subtask


def find_files(paths: Iterable[str], *, must_exist: bool = True) -> list[tuple[str, int]]:
    """The files below several paths, with their sizes in bytes, in an order that all agree on.

    Folders are searched recursively.  Names that start with a dot or an underscore are left out,
    except where the user named them.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    found: list[tuple[str, int]] = []
    for name in paths:
        path = Path(name)
        if path.is_file():
            found.append((name, path.stat().st_size))
        elif path.is_dir():
            found.extend(_files_below(path))
        elif must_exist:
            msg = f"the file source cannot read {name!r}: no such file or folder"
            raise FileNotFoundError(msg)
    return found


def _files_below(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            yield from _files_below(path)
        elif path.is_file():
            yield str(path), path.stat().st_size


def divide(files: Iterable[tuple[str, int]], parts: int) -> list[FileSplit]:
    """Cuts large files into at most ``parts`` splits each; small ones stay whole."""
    splits: list[FileSplit] = []
    for path, size in files:
        length = max(_SMALLEST_SPLIT_BYTES, -(-size // parts))
        splits.extend(
            FileSplit(path, start, min(start + length, size)) for start in range(0, size, length)
        )
    return splits


def read_splits(splits: Iterable[FileSplit], charset: str) -> Generator[list[str], None, None]:
    """The lines of splits in blocks, without their ends: LF, CR LF or CR."""
    for split in splits:
        if charset in _LINE_FEED_IS_A_BYTE:
            yield from _read_bytes(split, charset)
        else:
            with Path(split.path).open(encoding=charset, errors="replace", newline=None) as text:
                yield [line.removesuffix("\n") for line in text]


def _read_bytes(split: FileSplit, charset: str) -> Iterator[list[str]]:
    with Path(split.path).open("rb") as file:
        if split.start > 0:
            # A line that begins before the split belongs to the one before it.
            file.seek(split.start - 1)
            file.readline()
        position = file.tell()
        while position < split.end:
            block = file.read(min(_BLOCK_BYTES, split.end - position))
            if not block:
                return
            if not block.endswith(b"\n"):
                block += file.readline()
            position += len(block)
            yield _lines(block, charset)


def _lines(block: bytes, charset: str) -> list[str]:
    text = block.decode(charset, errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
