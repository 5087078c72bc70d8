"""Splits of files: discovery, division, and the records of a split."""

from __future__ import annotations

import glob
import io
import sys
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from penstock.columns.column_batch import ColumnBatch
from penstock.errors import CheckpointStorageError, SourceError
from penstock.formats.compression import decompressed, is_compressed, naming
from penstock.formats.file_format import BLOCK_BYTES, FileRange
from penstock.formats.row_batches import RowBatchRun
from penstock.taskexecutor.compiled import LOADED

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from penstock.formats.file_format import Batch, FileFormat

_BLOCK_BYTES = BLOCK_BYTES

#: Smaller files are not divided: opening one twice costs more than it gains.
_SMALLEST_SPLIT_BYTES = 4 * 1024 * 1024

#: The length of a file's splits.  Subtasks read neighbouring splits side by side: if the records
#: are in order of time, the data ahead of event time waits in windows, and is at most that of these
#: splits.
_SPLIT_BYTES = 8 * 1024 * 1024

#: The same for a file that costs more to open: in a store, or with a footer of its own.
_COSTLY_SPLIT_BYTES = 64 * 1024 * 1024

#: The most splits of one file for each subtask; a checkpoint stores all unread ones.
_MOST_SPLITS = 1024


class FileSplit(NamedTuple):
    """A range of bytes of a file; the records that begin in it belong to it.

    Attributes:
        path: The file.
        start: The first byte.
        end: The position after the last byte.
        skip: The number of its records that have been read.
        place: Its place in the order of all splits; 0 if files are read as they appear.
    """

    path: str
    start: int
    end: int
    skip: int = 0
    place: int = 0


class Stores(Protocol):
    """Finds the store of a URL."""

    def store(self, url: str) -> Any:
        """Return the store of a URL: an `ArrowFileSystem`, or an object with its read methods."""


class OneStore(NamedTuple):
    """One store for the files of all URLs.

    Attributes:
        found: The store.
    """

    found: Any

    def store(self, url: str) -> Any:
        """Return the store."""
        del url
        return self.found


def find_files(
    paths: Iterable[str], files: Stores, *, must_exist: bool = True
) -> list[tuple[str, int]]:
    """Return the files below several paths, with sizes in bytes, in an order all subtasks agree on.

    Folders are searched recursively.  A path that does not exist may be a pattern: ``*`` and ``?``
    stand for any characters of a name or one of them, ``[ab]`` for one of several, ``**`` for any
    folders.  Names that start with a dot or an underscore are left out, except where the user
    named them.  Paths of stores are URLs, without patterns.

    Raises:
        FileNotFoundError: A path does not exist, or a pattern matches nothing.
        SourceError: A store does not answer, denies access, or has no such bucket.
    """
    found: list[tuple[str, int]] = []
    for name in paths:
        if urlsplit(name).scheme:
            with _reading(name):
                store = files.store(name)
                below = store.files_below(name)
                missing = None if below or must_exist else store.missing_bucket(name)
            if not below and must_exist:
                raise FileNotFoundError(f"the file source cannot read {name!r}: it does not exist")
            if missing is not None:
                raise SourceError(
                    f"the file source cannot monitor {name!r}: there is no bucket {missing!r}; "
                    "check its name and the store's address, or create it"
                )
            found.extend(below)
            continue
        path = Path(name)
        if path.is_file():
            found.append((name, path.stat().st_size))
        elif path.is_dir():
            found.extend(_files_below(path))
        elif matching := _matching(name):
            found.extend(find_files(matching, files))
        elif must_exist:
            what = "no file or folder matches" if glob.has_magic(name) else "no such file or folder"
            msg = f"the file source cannot read {name!r}: {what}"
            raise FileNotFoundError(msg)
    return found


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise a store's errors as errors of the source."""
    try:
        yield
    except CheckpointStorageError as error:
        raise SourceError(
            f"the file source cannot read {path!r}: {error}; check the store's address and keys, "
            "and the permissions of their user"
        ) from error


def _matching(pattern: str) -> list[str]:
    """Return the files and folders that match a pattern, none of them below another one."""
    if not glob.has_magic(pattern):
        return []
    wants_hidden = Path(pattern).name.startswith("_")
    found = [
        path
        for path in sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 (Path.glob gives hidden names)
        if wants_hidden or not Path(path).name.startswith("_")
    ]
    folders = {path.rstrip("/") for path in found if Path(path).is_dir()}
    return [
        path for path in found if not any(str(above) in folders for above in Path(path).parents)
    ]


def _files_below(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            yield from _files_below(path)
        elif path.is_file():
            yield str(path), path.stat().st_size


def divide(
    files: Iterable[tuple[str, int]], parts: int, file_format: FileFormat
) -> list[FileSplit]:
    """Divide large files for ``parts`` subtasks; small and compressed ones stay whole.

    The splits are in the order of the files, and small, so that subtasks which take them in turn
    stay close to each other.
    """
    splits: list[FileSplit] = []
    for path, size in files:
        if _is_open_ended(path, file_format):
            splits.append(whole_file(path, size, file_format))
            continue
        is_costly = file_format.reads_arrow or bool(urlsplit(path).scheme)
        length = max(
            _SMALLEST_SPLIT_BYTES,
            min(-(-size // parts), _COSTLY_SPLIT_BYTES if is_costly else _SPLIT_BYTES),
            -(-size // (parts * _MOST_SPLITS)),
        )
        if parts == 1:
            length = max(length, size)
        splits.extend(
            FileSplit(path, start, min(start + length, size)) for start in range(0, size, length)
        )
    return [split._replace(place=place) for place, split in enumerate(splits)]


def whole_file(path: str, size: int, file_format: FileFormat) -> FileSplit:
    """Return the split of an undivided file."""
    return FileSplit(path, 0, sys.maxsize if _is_open_ended(path, file_format) else size)


def _is_open_ended(path: str, file_format: FileFormat) -> bool:
    """Return whether the size of a file differs from the size of its content."""
    is_compressed_file = file_format.is_compressible and is_compressed(path)
    return is_compressed_file or file_format.is_transcoded


class SplitElements:
    """The records of a split, read in batches."""

    def __init__(self, split: FileSplit, file_format: FileFormat, files: Stores) -> None:
        """Create the reader of a split; the file is opened with the first batch.

        Args:
            split: The split to read.
            file_format: The format of the file.
            files: The stores, for URLs.
        """
        self._split = split
        self._format = file_format
        self._files = files
        self._batches = self._read()
        self._batch: Batch | None = None
        #: The unread records of the batch.
        self._left: Iterator[Any] = iter(())
        self.is_exhausted = False

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._batches)

    def take(self, limit: int) -> tuple[int, Iterable[Any]]:
        """Return the number of the next records of one batch, at most ``limit``, and these records.

        There are none at the end of the split, or if a batch is empty.
        """
        if length_hint(self._left) == 0:
            next(self._batches, None)
        number = min(limit, length_hint(self._left))
        take = getattr(self._left, "take", None)
        return number, islice(self._left, number) if take is None else take(number)

    @property
    def are_columns(self) -> bool:
        """Return whether `take` returns a ColumnBatch next."""
        if length_hint(self._left) == 0:
            next(self._batches, None)
        return isinstance(self._left, BatchRun)

    @property
    def are_merged(self) -> bool:
        """Return whether `take` merges batches of rows."""
        return isinstance(self._left, RowBatchRun)

    def rest(self) -> FileSplit:
        """Return the split from the record after the last one taken."""
        batch = self._batch
        if batch is None:
            return self._split
        taken = len(batch.elements) - length_hint(self._left)
        return self._split._replace(start=batch.position, skip=batch.before + taken)

    def close(self) -> None:
        """Close the file."""
        self._batches.close()

    def _read(self) -> Generator[Iterator[Any], None, None]:
        split = self._split
        what = FileRange(split.path, split.start, split.end, _BLOCK_BYTES)
        with _reading(split.path), naming(split.path), ExitStack() as opened:
            for batch in self._format.read(self._open(opened), what):
                skip = split.skip - batch.before if batch.position == split.start else 0
                if skip >= len(batch.elements) > 0:
                    continue
                self._batch = batch
                elements: Any = batch.elements
                if isinstance(elements, ColumnBatch):
                    self._left = BatchRun(elements.slice(max(0, skip)))
                else:
                    left = elements[skip:] if skip > 0 else elements
                    self._left = _integers(left) if isinstance(left, memoryview) else iter(left)
                yield self._left
        self.is_exhausted = True

    def _open(self, opened: ExitStack) -> Any:
        path, arrow = self._split.path, self._format.reads_arrow
        if urlsplit(path).scheme:
            file = opened.enter_context(self._files.store(path).open_input(path))
            if arrow:
                return file
            file = io.BufferedReader(file, _BLOCK_BYTES)
        elif arrow:
            import pyarrow

            return opened.enter_context(pyarrow.OSFile(path))
        else:
            file = opened.enter_context(Path(path).open("rb"))  # noqa: SIM115 (it is one)
        return decompressed(path, file) if self._format.is_compressible else file


class BatchRun:
    """The unread records of a column batch, which are converted to rows only on demand.

    It is also an iterator over them.
    """

    def __init__(self, batch: ColumnBatch) -> None:
        """Begin with the first record."""
        self._batch = batch
        self._taken = 0

    def __length_hint__(self) -> int:
        return len(self._batch) - self._taken

    def take(self, limit: int) -> ColumnBatch:
        """Return the next records, at most ``limit``."""
        found = self._batch.slice(self._taken, limit)
        self._taken += len(found)
        return found

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._taken == len(self._batch):
            raise StopIteration
        return self.take(1).rows()[0]


def _integers(values: memoryview) -> Iterator[int]:
    """Return an iterator over 64-bit integers; the native one creates the objects on demand."""
    if LOADED == "pure":
        return iter(values.tolist())
    from penstock._native.evaluator.integer_run import IntegerRun

    run: Iterator[int] = IntegerRun(values)
    return run
