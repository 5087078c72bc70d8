"""Sinks, and what commits behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.graph.operators.descriptor import FunctionDescriptor, OperatorDescriptor

if TYPE_CHECKING:
    from penstock.common.serialization import Encoder
    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class FunctionSink(FunctionDescriptor):
    """A SinkFunction, or a callable."""


@dataclass(frozen=True)
class DiscardingSink(OperatorDescriptor):
    """Drops records."""


@dataclass(frozen=True)
class PrintSink(OperatorDescriptor):
    """A line on standard output, or standard error, for each record.

    Attributes:
        identifier: Put before each line, with the number of the subtask.
        to_error: Whether it is standard error.
    """

    identifier: str = ""
    to_error: bool = False


@dataclass(frozen=True)
class CollectSink(OperatorDescriptor):
    """Sends records to the driver.

    Attributes:
        collect_id: Names the sink.
        element_type: What elements are encoded as; None for any Python values.
    """

    collect_id: str
    element_type: TypeInformation | None = None


@dataclass(frozen=True)
class SinkWriter(FunctionDescriptor):
    """The writers of a PythonSink, which is the function."""


@dataclass(frozen=True)
class SinkCommitter(FunctionDescriptor):
    """The committers of a PythonSink, which is the function."""


@dataclass(frozen=True, kw_only=True)
class FileSink(OperatorDescriptor):
    """Writes records into part files.

    Attributes:
        base_path: The folder.
        encoder: What makes bytes of a record; None of a bulk format.
        bulk_writer_factory: Makes the writers of a bulk format's files; None of a row format.
        bucket_assigner: A BucketAssigner: in which folder below a record belongs.
        rolling_policy: A RollingPolicy: when a new file begins.
        bucket_check_interval_ms: Between two looks at the age of the files.
        part_prefix: What names of files begin with.
        part_suffix: What they end with.
        named_by_subtask: Whether the subtask's number stands in them, as in the older form.
        commit_trigger: The PartitionCommitTrigger of a sink with partition commit: files of folders
            that are due end with the checkpoint.
    """

    base_path: str
    encoder: Encoder | None
    bucket_assigner: Any
    rolling_policy: Any
    bulk_writer_factory: Any = None
    bucket_check_interval_ms: int = 60_000
    part_prefix: str = "part"
    part_suffix: str = ""
    named_by_subtask: bool = False
    commit_trigger: Any = None


@dataclass(frozen=True)
class FileCommitter(OperatorDescriptor):
    """Gives the files of a `FileSink` their names.

    Attributes:
        partition_commit: The PartitionCommit of the sink: what follows once the files of a folder
            have their names; None for nothing.
        replaced: Files that are deleted once files of the job in the same folder have their names.
    """

    partition_commit: Any = None
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileCompactor(OperatorDescriptor):
    """Puts files of a `FileSink` together before they get their names.

    Attributes:
        sink: The sink that wrote them.
        strategy: A FileCompactStrategy: when; None hands on what a former job has kept.
        compactor: A FileCompactor: how; None without a strategy.
    """

    sink: FileSink
    strategy: Any = None
    compactor: Any = None
