"""FileSource: records read from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote, urlparse

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.packages.store_urls import shown_url, why_not_a_store
from penstock.connectors.base import Source
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.file_format import BulkFormat, FileFormat
from penstock.formats.lines import StreamFormat
from penstock.formats.path_columns import WithPathColumns
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.time import Duration, Time
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")


class FileEnumeratorProvider(NoJavaMembers):
    """Setting that says whether files are divided into splits."""

    def __init__(self, splittable: bool) -> None:
        """Create a provider; use the static methods."""
        self.splittable = splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Let several subtasks read a large file."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Let one subtask read each file."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider(NoJavaMembers):
    """Choice of the subtask that reads a split."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Prefer local splits; with local files all are."""
        return FileSplitAssignerProvider()


class FileSource(Source[VALUE]):
    """Source that reads files and, recursively, folders; it skips names with a leading dot or _.

    Paths may be URLs of stores that ``pyarrow.fs`` or ``fsspec`` knows.
    """

    def __init__(
        self,
        file_format: FileFormat,
        paths: tuple[str, ...],
        *,
        splittable: bool = True,
        discovery_interval_ms: int | None = None,
        store: Any = None,
    ) -> None:
        """Create a source; use `for_record_stream_format`."""
        super().__init__(None)
        self._format = file_format
        self._paths = paths
        self._splittable = splittable
        self._discovery_interval_ms = discovery_interval_ms
        self._store = store

    @staticmethod
    def for_record_stream_format(
        stream_format: StreamFormat[T], *paths: str
    ) -> FileSourceBuilder[T]:
        """Return a builder of a source that reads single records.

        Raises:
            InvalidProgramError: There is no path, or the format is invalid.
        """
        return _builder("for_record_stream_format", StreamFormat, stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat[T], *paths: str) -> FileSourceBuilder[T]:
        """Return a builder of a source that reads batches.

        Raises:
            InvalidProgramError: There is no path, or the format is invalid.
        """
        return _builder("for_bulk_file_format", BulkFormat, bulk_format, paths)

    def source_operator(self) -> operators.FileSource:
        """Return the operator that reads the files."""
        return operators.FileSource(
            paths=self._paths,
            format=self._format,
            splittable=self._splittable,
            discovery_interval_ms=self._discovery_interval_ms,
            store=self._store,
        )

    def is_bounded(self) -> bool:
        """Return whether the source ends, because it does not look for new files."""
        return self._discovery_interval_ms is None

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the format's records."""
        return self._format.get_produced_type()


@checks_arguments
class FileSourceBuilder(NoJavaMembers, Generic[VALUE]):
    """Builder of a FileSource."""

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...]) -> None:
        """Create a builder; use `FileSource.for_record_stream_format`."""
        self._format = file_format
        self._paths = paths
        self._splittable = True
        self._discovery_interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Duration | Time) -> FileSourceBuilder[VALUE]:
        """Look for new files at an interval; the source then never ends."""
        interval_ms = discovery_interval.to_millis()
        if interval_ms <= 0:
            raise InvalidProgramError(
                f"a discovery interval must be positive, got {discovery_interval!r}"
            )
        self._discovery_interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder[VALUE]:
        """Read the files that exist at the start; the default."""
        self._discovery_interval_ms = None
        return self

    def set_file_enumerator(
        self, file_enumerator: FileEnumeratorProvider
    ) -> FileSourceBuilder[VALUE]:
        """Set whether large files are divided; by default they are if the format allows it."""
        self._splittable = file_enumerator.splittable
        return self

    def set_split_assigner(
        self,
        split_assigner: FileSplitAssignerProvider,  # noqa: ARG002
    ) -> FileSourceBuilder[VALUE]:
        """Accept the assigner of splits, of which there is only one."""
        return self

    def add_path_columns(
        self,
        path_column: str | None = None,
        partition_columns: Mapping[str, TypeInformation] | None = None,
    ) -> FileSourceBuilder[VALUE]:
        """Add fields with the path of the file, and values in its folders (beyond PyFlink).

        Args:
            path_column: The name of a field for the path.
            partition_columns: Fields, with their types, for folders named ``name=value``.

        Raises:
            InvalidProgramError: The records are not rows, or already have a field of that name.
        """
        self._format = WithPathColumns(self._format, path_column, partition_columns or {})
        return self

    def build(self) -> FileSource[VALUE]:
        """Return the source."""
        return FileSource(
            self._format,
            self._paths,
            splittable=self._splittable,
            discovery_interval_ms=self._discovery_interval_ms,
        )


def _builder(
    method: str, kind: type[Any], given: FileFormat, paths: tuple[str, ...]
) -> FileSourceBuilder[Any]:
    """Return the builder for a method of `FileSource`, once its arguments are checked."""
    if not isinstance(given, kind):
        raise WrongArgumentError(f"{method} takes a {kind.__name__}: {given!r}")
    if not paths:
        raise InvalidProgramError(f"{method} needs at least one path")
    return FileSourceBuilder(given, tuple(path_of_files(method, path) for path in paths))


def local_path(path: str | os.PathLike[str]) -> str:
    """Return an absolute path of the operating system, for a path or a file: URI.

    A relative path is resolved in the program's working directory: workers may have another.

    Raises:
        InvalidProgramError: The path has a scheme other than file.
    """
    text = os.fspath(path)
    url = urlparse(text)
    if url.scheme == "file":
        return unquote(url.path)
    if "://" in text:
        raise InvalidProgramError(f"penstock reads and writes local files only, got {text!r}")
    return str(Path(text).absolute())


def sink_path(path: str | os.PathLike[str]) -> str:
    """Return the path like `local_path`, and URLs of stores unchanged.

    Raises:
        WrongArgumentError: The argument is not a path, or is empty.
    """
    given: Any = path
    if not isinstance(given, (str, os.PathLike)) or not (text := os.fspath(path)):
        raise WrongArgumentError(
            f"a path must be a string that is not empty, or a Path, got {path!r}"
        )
    return text if "://" in text and not text.startswith("file:") else local_path(text)


def path_of_files(method: str, path: str | os.PathLike[str]) -> str:
    """Return the path like `sink_path`, for files that penstock itself reads and writes.

    Raises:
        WrongArgumentError: It is not a path, or no installed package knows the store of the URL.
    """
    text = sink_path(path)
    if "://" in text and (reason := why_not_a_store(text)) is not None:
        raise WrongArgumentError(f"{method}: {shown_url(text)}: {reason}")
    return text
