"""File formats that a FileSource can read.

A format yields batches of records, each with a position at which the same records can be read
again: a checkpoint stores the position and the number of records that were emitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Self

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

BLOCK_BYTES: Final = 256 * 1024


class Batch(NamedTuple):
    """Records of a file.

    Attributes:
        position: The offset in the file from which they can be read again.
        before: The number of records between the position and these.
        elements: The records; a `DeadLetter` among them goes to a side output.  Whole numbers of
            64 bits may be a memoryview, and rows a ColumnBatch or RowBatches.
    """

    position: int
    before: int
    elements: Sequence[Any]


class DeadLetter:
    """Placeholder among the records of a file for one that cannot be read."""

    __slots__ = ("row", "tag")

    def __init__(self, tag: OutputTag | None, row: Any) -> None:
        """Create a placeholder with a row for the tag's side output; without one it is skipped."""
        self.tag = tag
        self.row = row


class FileRange(NamedTuple):
    """Range of a file to read.

    Attributes:
        path: The file, for errors and dead letters.
        start: The range has the records that begin at this byte of the uncompressed file or later …
        end: … and before this one.
        block_bytes: Number of bytes to read at a time.
    """

    path: str
    start: int
    end: int
    block_bytes: int = BLOCK_BYTES


@dataclass
class BlockCounts:
    """Counts of the blocks of lines that were read.

    Attributes:
        in_columns: Those that were read as columns.
        in_rows: Those that were read row by row.
    """

    in_columns: int = 0
    in_rows: int = 0


class FileFormat(ABC):
    """Layout of records in a file.

    Attributes:
        reads_arrow: Whether `read` expects a pyarrow file, for random access.
        is_compressible: Whether a file with the suffix of a compressor is decompressed.
        has_dead_letters: Whether the records may contain a `DeadLetter`.
        is_transcoded: Whether positions are those in the file's text in UTF-8.
        block_counts: The counts of blocks; None if the format never reads a block as columns.
    """

    reads_arrow = False
    is_transcoded = False
    is_compressible = True
    has_dead_letters = False
    block_counts: BlockCounts | None = None

    @abstractmethod
    def can_be_cut(self) -> bool:
        """Return whether several subtasks may read one file."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, or None if it is not declared."""

    def in_columns(self) -> Self:
        """Return a format that may yield batches of columns; by default this one."""
        return self

    def explanation(self) -> str | None:
        """Return how records are read, for `explain`; None if there is only one way."""
        return None

    @abstractmethod
    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield the records of a range.

        Args:
            file: An open binary file; pyarrow's if `reads_arrow`.
            what: The range.

        Raises:
            FormatError: The content is malformed; the message names file, position and field.
        """


class BulkFormat(FileFormat, NoJavaMembers, Generic[VALUE]):
    """Layout of batches of records in a file."""

    def __init__(self, j_bulk_format: None = None) -> None:
        """Create a format; Python subclasses pass None.

        Raises:
            JvmOnlyError: A Java format was passed.
        """
        if j_bulk_format is not None:
            requires_jvm("BulkFormat(j_bulk_format)", "use ParquetColumnarRowInputFormat")
