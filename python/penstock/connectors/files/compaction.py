"""Compaction of a FileSink's small files into large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from penstock.formats.file_format import FileFormat


class FileCompactStrategy(NoJavaMembers):
    """Strategy that decides when files are compacted.

    Attributes:
        num_checkpoints: The number of checkpoints between compactions; None for no limit.
        size_threshold_bytes: The size at which a bucket's files are compacted; None for no limit.
        num_threads: The number of compacting threads of a subtask.
    """

    def __init__(
        self,
        *,
        num_checkpoints: int | None = None,
        size_threshold_bytes: int | None = None,
        num_threads: int = 1,
    ) -> None:
        """Create a strategy; use `builder`."""
        self.num_checkpoints = num_checkpoints
        self.size_threshold_bytes = size_threshold_bytes
        self.num_threads = num_threads

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Return a builder of a strategy."""
        return FileCompactStrategy.Builder()

    def get_java_object(self) -> NoReturn:
        """Reject the call: there is no Java object behind it."""
        requires_jvm("FileCompactStrategy.get_java_object", "use the strategy itself")

    @checks_arguments
    class Builder(NoJavaMembers):
        """Builder of a FileCompactStrategy."""

        def __init__(self) -> None:
            self._num_checkpoints: int | None = None
            self._size_threshold: int | None = None
            self._num_threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compact files after this number of checkpoints."""
            if num_checkpoints_before_compaction <= 0:
                raise InvalidProgramError(
                    "the number of checkpoints must be positive, got "
                    f"{num_checkpoints_before_compaction}"
                )
            self._num_checkpoints = num_checkpoints_before_compaction
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact the files of a bucket when they reach this size in bytes."""
            if size_threshold <= 0:
                raise InvalidProgramError(f"a size must be positive, got {size_threshold} bytes")
            self._size_threshold = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set the number of compacting threads of a subtask."""
            if num_compact_threads <= 0:
                raise InvalidProgramError(
                    f"the number of threads must be positive, got {num_compact_threads}"
                )
            self._num_threads = num_compact_threads
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy.

            Raises:
                InvalidProgramError: Neither checkpoints nor a size were set.
            """
            if self._num_checkpoints is None and self._size_threshold is None:
                raise InvalidProgramError(
                    "a FileCompactStrategy needs enable_compaction_on_checkpoint or "
                    "set_size_threshold"
                )
            return FileCompactStrategy(
                num_checkpoints=self._num_checkpoints,
                size_threshold_bytes=self._size_threshold,
                num_threads=self._num_threads,
            )


class FileCompactor:
    """Compactor, which merges several files into one.

    Attributes:
        kind: `CONCAT`, `IDENTICAL` or `RECORD_WISE`.
        file_delimiter: The delimiter between the contents of two files; empty for other kinds.
        read_format: The format in which `RECORD_WISE` reads the files; None for other kinds.
    """

    CONCAT: Final = "concat"
    IDENTICAL: Final = "identical"
    RECORD_WISE: Final = "record-wise"

    def __init__(
        self, kind: str, file_delimiter: bytes = b"", read_format: FileFormat | None = None
    ) -> None:
        """Create a compactor; use the static methods."""
        self.kind = kind
        self.file_delimiter = file_delimiter
        self.read_format = read_format

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Concatenate the contents, with a delimiter in between."""
        given: Any = file_delimiter
        if given is not None and not isinstance(given, bytes | bytearray):
            raise WrongArgumentError(f"a file delimiter must be bytes, got {file_delimiter!r}")
        return FileCompactor(FileCompactor.CONCAT, bytes(file_delimiter or b""))

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leave each file as it is: it is only renamed."""
        return FileCompactor(FileCompactor.IDENTICAL)

    @staticmethod
    def record_wise_file_compactor(read_format: FileFormat) -> FileCompactor:
        """Read the records of the files, and write them as the sink does (beyond PyFlink).

        Args:
            read_format: The format with which a `FileSource` would read the files.

        Raises:
            InvalidProgramError: The argument is not a format, or the format skips malformed lines.
        """
        from penstock.formats.file_format import FileFormat

        given: Any = read_format
        if not isinstance(given, FileFormat):
            raise WrongArgumentError(
                f"record_wise_file_compactor takes a format of a FileSource, got {given!r}"
            )
        if given.has_dead_letters:
            raise InvalidProgramError(
                "record_wise_file_compactor: a format that skips malformed input would lose "
                "records: leave out skip_malformed and dead_letters"
            )
        return FileCompactor(FileCompactor.RECORD_WISE, read_format=given)

    def get_java_object(self) -> NoReturn:
        """Reject the call: there is no Java object behind it."""
        requires_jvm("FileCompactor.get_java_object", "use the compactor itself")
