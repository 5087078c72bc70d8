"""How a FileSink makes few large files of many small ones."""

from __future__ import annotations

from typing import NoReturn

from penstock.common.jvm import requires_jvm
from penstock.errors import InvalidProgramError


class FileCompactStrategy:
    """Says when files are put together.

    Attributes:
        num_checkpoints: After so many checkpoints; None does not count.
        size_threshold_bytes: When this size is reached; None does not count.
        num_threads: How many threads do it.
    """

    def __init__(
        self,
        *,
        num_checkpoints: int | None = None,
        size_threshold_bytes: int | None = None,
        num_threads: int = 1,
    ) -> None:
        """Makes a strategy; use `builder`."""
        self.num_checkpoints = num_checkpoints
        self.size_threshold_bytes = size_threshold_bytes
        self.num_threads = num_threads

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Starts a strategy."""
        return FileCompactStrategy.Builder()

    def get_java_object(self) -> NoReturn:
        """Refused: there is no Java object behind it."""
        requires_jvm("FileCompactStrategy.get_java_object", "use the strategy itself")

    class Builder:
        """Collects the settings of a strategy."""

        def __init__(self) -> None:
            self._num_checkpoints: int | None = None
            self._size_threshold: int | None = None
            self._num_threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Puts files together after so many checkpoints."""
            if num_checkpoints_before_compaction <= 0:
                raise InvalidProgramError(
                    f"number of checkpoints must be positive: {num_checkpoints_before_compaction}"
                )
            self._num_checkpoints = num_checkpoints_before_compaction
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Puts files together when they have this size in bytes."""
            self._size_threshold = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Sets how many threads do it."""
            if num_compact_threads <= 0:
                raise InvalidProgramError(f"threads must be positive, got {num_compact_threads}")
            self._num_threads = num_compact_threads
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy.

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
    """Puts files together.

    Attributes:
        file_delimiter: What stands between the contents; None allows single files only.
    """

    def __init__(self, kind: str, file_delimiter: bytes | None = None) -> None:
        """Makes a compactor; use the static methods."""
        self.kind = kind
        self.file_delimiter = file_delimiter

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Writes the contents one after the other, with a delimiter in between."""
        return FileCompactor("concat", file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leaves files as they are."""
        return FileCompactor("identical")

    def get_java_object(self) -> NoReturn:
        """Refused: there is no Java object behind it."""
        requires_jvm("FileCompactor.get_java_object", "use the compactor itself")
