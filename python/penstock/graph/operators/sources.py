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
    """The elements of a collection, by the first subtask.

    Attributes:
        elements: The encoded elements.
        element_type: What they are encoded as; None for any Python values.
        classes: The classes of the values, which travel with the job.
    """

    elements: Sequence[bytes]
    element_type: TypeInformation | None = None
    classes: Sequence[type] = ()


@dataclass(frozen=True, kw_only=True)
class NumberSequenceSource(SourceDescriptor):
    """The numbers from ``start`` to ``end``, both included, divided among the subtasks."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class ColumnSource(SourceDescriptor):
    """The rows of a table, whose subtasks take ranges of them in turn.

    Attributes:
        batches: Record batches, each as a stream of Arrow's IPC format.
        lengths: How many rows each of them has.
        row_type: The type of the rows.
    """

    batches: Sequence[bytes]
    lengths: Sequence[int]
    row_type: TypeInformation


@dataclass(frozen=True, kw_only=True)
class DataGeneratorSource(SourceDescriptor):
    """Source that maps the numbers from 0 on, divided among the subtasks.

    Attributes:
        function: Makes a record of its number.
        count: How many records there are.
        records_per_second: The most of all subtasks together, None for no limit.
        records_per_checkpoint: The most of all subtasks together between two complete checkpoints,
            None for no limit.
    """

    function: Any
    count: int
    records_per_second: float | None = None
    records_per_checkpoint: int | None = None

    @property
    def user_function(self) -> Any:
        """The function."""
        return self.function


@dataclass(frozen=True, kw_only=True)
class SocketTextSource(SourceDescriptor):
    """Texts that a server sends.

    Attributes:
        host: The server.
        port: Its port.
        delimiter: What ends a text.
        max_retry: The number of connections where it is more than 1; -1 for ever.
        retry_delay_ms: Between the end of a connection and the next one.
        connect_timeout_ms: For a connection to be made; 0 waits as long as the system does.
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retry: int = 0
    retry_delay_ms: int = 500
    connect_timeout_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class FileSource(SourceDescriptor):
    """The records of files.

    Attributes:
        paths: Files and folders.
        format: A FileFormat: how records are found in a file; None finds lines.
        charset: Of these lines.
        splittable: Whether several subtasks may read one file.
        discovery_interval_ms: Between two looks for new files; None reads what is there at the
            start.
        store: What reaches the files of URLs where it is not the options of the job that say how,
            as ``checkpoint_storage.ArrowFileSystem`` does; None where it is.
    """

    paths: Sequence[str]
    format: Any = None
    charset: str | None = None
    splittable: bool = True
    discovery_interval_ms: int | None = None
    store: Any = None


@dataclass(frozen=True, kw_only=True)
class HybridSource(SourceDescriptor):
    """Several sources, one after the other, each without watermarks of its own.

    Attributes:
        sources: The sources.
        parts_enumerating: What makes the enumerators of those that have one; None if none has.
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
    """A SourceFunction."""


@dataclass(frozen=True)
class SplitSource(SourceDescriptor, FunctionDescriptor):
    """A PythonSource: its readers in the tasks, its enumerator beside the JobMaster."""

    @property
    def is_coordinated(self) -> bool:
        """Always: by its enumerator."""
        return True

    @property
    def enumerating(self) -> Any:
        """The source."""
        return self.function
