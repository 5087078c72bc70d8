"""File formats that a FileSource can read.

A format gives batches of elements, each with a position from which the same elements are found
again: a checkpoint notes the position and how many of its elements were taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from penstock.common.jvm import requires_jvm
from penstock.common.missing_methods import NoJavaMembers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

BLOCK_BYTES: Final = 256 * 1024


class Batch(NamedTuple):
    """Elements of a file.

    Attributes:
        position: Where in the file to begin so as to find them again.
        before: How many elements lie between the position and these.
        elements: The elements; a `DeadLetter` among them goes to a side output.  Whole numbers of
            64 bits may lie in memory, as a memoryview has them, and rows in a ColumnBatch.
    """

    position: int
    before: int
    elements: Sequence[Any]


class DeadLetter:
    """Placeholder among the records of a file for one that cannot be read."""

    __slots__ = ("row", "tag")

    def __init__(self, tag: OutputTag | None, row: Any) -> None:
        """The row goes to the side output of the tag; without one nothing is emitted."""
        self.tag = tag
        self.row = row


class FileRange(NamedTuple):
    """Range of a file to read.

    Attributes:
        path: The file, for errors and dead letters.
        start: The elements that begin at this byte, of what it holds uncompressed, or later …
        end: … and before this one.
        block_bytes: Number of bytes to read at a time.
    """

    path: str
    start: int
    end: int
    block_bytes: int = BLOCK_BYTES


class FileFormat(ABC):
    """Layout of records in a file.

    Attributes:
        reads_arrow: Whether `read` takes a file of pyarrow, which reads at several places.
        is_compressible: Whether a file whose name ends as one of a compressor's is decompressed.
        has_dead_letters: Whether there may be a `DeadLetter` among the elements.
        is_transcoded: Whether positions are not those of the file, but of its text in UTF-8.
    """

    reads_arrow = False
    is_transcoded = False
    is_compressible = True
    has_dead_letters = False

    @abstractmethod
    def can_be_cut(self) -> bool:
        """Return whether several subtasks may read one file."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the elements, None when it is not declared."""

    def in_columns(self) -> Self:
        """Return a format whose batches may be batches of columns: here the same."""
        return self

    @abstractmethod
    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """The elements of a range.

        Args:
            file: An open binary file; of pyarrow if `reads_arrow`.
            what: The range.

        Raises:
            FormatError: There is something else; names the file, the place and the field.
        """


class BulkFormat(FileFormat, NoJavaMembers):
    """Layout of batches of records in a file."""

    def __init__(self, j_bulk_format: None = None) -> None:
        """Create a format; subclasses say which.

        Raises:
            JvmOnlyError: A Java format was passed.
        """
        if j_bulk_format is not None:
            requires_jvm("BulkFormat(j_bulk_format)", "use ParquetColumnarRowInputFormat")
