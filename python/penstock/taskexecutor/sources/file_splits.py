"""Text files: which there are, how they are cut, and the lines of a piece."""

from __future__ import annotations

import glob
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

_BLOCK_BYTES = 256 * 1024

#: Smaller files are not cut: opening one twice costs more than it gains.
_SMALLEST_SPLIT_BYTES = 4 * 1024 * 1024

#: Charsets in which a line feed is the byte 10 and nothing else is.
_LINE_FEED_IS_A_BYTE = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "iso8859-15"})


class FileSplit(NamedTuple):
    """A range of bytes of a file; the lines that begin in it belong to it.

    Attributes:
        path: The file.
        start: The first byte.
        end: Behind the last byte.
        skip: The number of its lines that were read already.
    """

    path: str
    start: int
    end: int
    skip: int = 0


def find_files(paths: Iterable[str], *, must_exist: bool = True) -> list[tuple[str, int]]:
    """The files below several paths, with their sizes in bytes, in an order that all agree on.

    Folders are searched recursively.  A path that does not exist may be a pattern: ``*`` and ``?``
    stand for any characters of a name or one of them, ``[ab]`` for one of several, ``**`` for any
    folders.  Names that start with a dot or an underscore are left out, except where the user
    named them.

    Raises:
        FileNotFoundError: A path does not exist, or a pattern fits nothing.
    """
    found: list[tuple[str, int]] = []
    for name in paths:
        path = Path(name)
        if path.is_file():
            found.append((name, path.stat().st_size))
        elif path.is_dir():
            found.extend(_files_below(path))
        elif matching := _matching(name):
            found.extend(find_files(matching))
        elif must_exist:
            what = "no file or folder fits" if glob.has_magic(name) else "no such file or folder"
            msg = f"the file source cannot read {name!r}: {what}"
            raise FileNotFoundError(msg)
    return found


def _matching(pattern: str) -> list[str]:
    """The files and folders that a pattern fits, none of them below another one."""
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


def divide(files: Iterable[tuple[str, int]], parts: int) -> list[FileSplit]:
    """Cuts large files into at most ``parts`` splits each; small ones stay whole."""
    splits: list[FileSplit] = []
    for path, size in files:
        length = max(_SMALLEST_SPLIT_BYTES, -(-size // parts))
        splits.extend(
            FileSplit(path, start, min(start + length, size)) for start in range(0, size, length)
        )
    return splits


def can_be_cut(charset: str) -> bool:
    """Whether lines of this charset, by its codec's name, can be told apart by their bytes."""
    return charset in _LINE_FEED_IS_A_BYTE


class SplitLines:
    """The lines of a split, without their ends: LF, CR LF or CR; read in blocks."""

    def __init__(self, split: FileSplit, charset: str) -> None:
        """Opens nothing yet.

        Args:
            split: What to read.
            charset: The name of its codec.
        """
        self._split = split
        self._charset = charset
        self._blocks = self._read()
        self._block_start = split.start
        self._block: list[str] = []
        #: The lines of the block that were not taken yet.
        self._left: Iterator[str] = iter(())

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._blocks)

    def rest(self) -> FileSplit:
        """The split from the line that follows the last one taken."""
        if not self._block:
            return self._split
        taken = len(self._block) - length_hint(self._left)
        return self._split._replace(start=self._block_start, skip=taken)

    def close(self) -> None:
        """Closes the file."""
        self._blocks.close()

    def _read(self) -> Generator[Iterator[str], None, None]:
        skip = self._split.skip
        blocks = self._read_bytes() if can_be_cut(self._charset) else self._read_text()
        for start, block in blocks:
            if skip >= len(block):
                skip -= len(block)
                continue
            self._block_start, self._block = start, block
            self._left = iter(block[skip:] if skip else block)
            skip = 0
            yield self._left

    def _read_text(self) -> Iterator[tuple[int, list[str]]]:
        path = Path(self._split.path)
        with path.open(encoding=self._charset, errors="replace", newline=None) as text:
            yield 0, [line.removesuffix("\n") for line in text]

    def _read_bytes(self) -> Iterator[tuple[int, list[str]]]:
        split = self._split
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
                yield position, _lines(block, self._charset)
                position += len(block)


def _lines(block: bytes, charset: str) -> list[str]:
    text = block.decode(charset, errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
