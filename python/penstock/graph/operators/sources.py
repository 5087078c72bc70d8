"""Sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.graph.operators.descriptor import FunctionDescriptor, SourceDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True, kw_only=True)
class CollectionSource(SourceDescriptor):
    """Emits the elements of a collection in the first subtask.

    Attributes:
        elements: The encoded elements.
        element_type: The type by which they are encoded; None for any Python values.
        classes: The classes of the values, which travel with the job.
    """

    elements: Sequence[bytes]
    element_type: TypeInformation | None = None
    classes: Sequence[type] = ()


@dataclass(frozen=True, kw_only=True)
class NumberSequenceSource(SourceDescriptor):
    """Emits the numbers from ``start`` to ``end``, both included, divided among the subtasks."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class ColumnSource(SourceDescriptor):
    """Emits the rows of a table, whose ranges are assigned to the subtasks in turn.

    Attributes:
        batches: Record batches, each as a stream of Arrow's IPC format.
        lengths: The number of rows of each batch.
        row_type: The type of the rows.
    """

    batches: Sequence[bytes]
    lengths: Sequence[int]
    row_type: TypeInformation


@dataclass(frozen=True, kw_only=True)
class DataGeneratorSource(SourceDescriptor):
    """Source that maps the numbers from 0 on, divided among the subtasks.

    Attributes:
        function: Creates a record from its number.
        count: The number of records.
        records_per_second: Maximum rate of all subtasks together; None for no limit.
        records_per_checkpoint: Maximum number of records of all subtasks together between two
            complete checkpoints; None for no limit.
        batch_size: Maximum number of records of a batch, which the function creates from the
            range of their numbers; None for a function of single records.
    """

    function: Any
    count: int
    records_per_second: float | None = None
    records_per_checkpoint: int | None = None
    batch_size: int | None = None

    @property
    def user_function(self) -> Any:
        """The user's function."""
        return self.function


@dataclass(frozen=True, kw_only=True)
class SocketTextSource(SourceDescriptor):
    """Emits texts that a server sends.

    Attributes:
        host: The server.
        port: Its port.
        delimiter: The end of a text.
        max_retry: The number of connections if more than 1; -1 for no limit.
        retry_delay_ms: Time between the end of a connection and the next one.
        connect_timeout_ms: Timeout of connecting; 0 for the system's.
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retry: int = 0
    retry_delay_ms: int = 500
    connect_timeout_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class FileSource(SourceDescriptor):
    """Emits the records of files.

    Attributes:
        paths: Files and folders.
        format: A FileFormat, which reads the records of a file; None reads lines.
        charset: The encoding of these lines.
        splittable: Whether several subtasks may read one file.
        discovery_interval_ms: Interval of the search for new files; None reads only the files
            present at the start.
        store: Accesses the files of URLs, as ``checkpoint_storage.ArrowFileSystem`` does; None if
            the options of the job say how.
    """

    paths: Sequence[str]
    format: Any = None
    charset: str | None = None
    splittable: bool = True
    discovery_interval_ms: int | None = None
    store: Any = None


@dataclass(frozen=True, kw_only=True)
class HybridSource(SourceDescriptor):
    """Emits several sources, one after another, each without watermarks of its own.

    Attributes:
        sources: The sources.
        parts_enumerating: Creates the enumerators of the sources that have one; None if none has.
    """

    sources: Sequence[SourceDescriptor]
    parts_enumerating: Any = None

    @property
    def is_coordinated(self) -> bool:
        """Return whether it is aligned with other sources, or has an enumerator."""
        return self.parts_enumerating is not None or super().is_coordinated

    @property
    def enumerating(self) -> Any:
        """Return the factory of its sources' enumerators."""
        return self.parts_enumerating


@dataclass(frozen=True)
class FunctionSource(SourceDescriptor, FunctionDescriptor):
    """Runs a SourceFunction."""


@dataclass(frozen=True)
class SplitSource(SourceDescriptor, FunctionDescriptor):
    """Runs a PythonSource: its readers in the tasks, its enumerator beside the JobMaster."""

    @property
    def is_coordinated(self) -> bool:
        """Return True: it has an enumerator."""
        return True

    @property
    def enumerating(self) -> Any:
        """The source itself."""
        return self.function
