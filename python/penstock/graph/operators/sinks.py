"""Sinks and their committers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.graph.operators.descriptor import FunctionDescriptor, OperatorDescriptor

if TYPE_CHECKING:
    from penstock.common.serialization import Encoder
    from penstock.common.typeinfo import TypeInformation


class FunctionSink(FunctionDescriptor):
    """Calls a SinkFunction, or a callable."""


class DiscardingSink(OperatorDescriptor):
    """Drops records."""


@dataclass(frozen=True)
class PrintSink(OperatorDescriptor):
    """Writes a line for each record to standard output or standard error.

    Attributes:
        identifier: A prefix of each line, before the number of the subtask.
        to_error: Whether to write to standard error.
    """

    identifier: str = ""
    to_error: bool = False


@dataclass(frozen=True)
class CollectSink(OperatorDescriptor):
    """Sends records to the driver.

    Attributes:
        collect_id: The id of the sink.
        element_type: The type by which elements are encoded; None for any Python values.
    """

    collect_id: str
    element_type: TypeInformation | None = None


class SinkWriter(FunctionDescriptor):
    """Runs the writers of a PythonSink, which is the function."""


class SinkCommitter(FunctionDescriptor):
    """Runs the committers of a PythonSink, which is the function."""


@dataclass(frozen=True, kw_only=True)
class FileSink(OperatorDescriptor):
    """Writes records into part files.

    Attributes:
        base_path: The folder.
        encoder: Encodes a record as bytes; None for a bulk format.
        bulk_writer_factory: Creates the writers of a bulk format's files; None for a row format.
        bucket_assigner: A BucketAssigner, which chooses the subfolder of a record.
        rolling_policy: A RollingPolicy, which decides when a new file starts.
        bucket_check_interval_ms: Interval of the checks of the files' age.
        part_prefix: The prefix of file names.
        part_suffix: The suffix of file names.
        named_by_subtask: Whether file names contain the subtask's number, as in the older form.
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
    """Renames the files of a `FileSink` to their final names.

    Attributes:
        partition_commit: The PartitionCommit of the sink, which follows once the files of a folder
            have their names; None for nothing.
        replaced: Files to delete once files of the job in the same folder have their names.
    """

    partition_commit: Any = None
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileCompactor(OperatorDescriptor):
    """Merges files of a `FileSink` before they get their final names.

    Attributes:
        sink: The sink that wrote them.
        strategy: A FileCompactStrategy; None forwards the files that a former job has stored.
        compactor: A FileCompactor; None without a strategy.
    """

    sink: FileSink
    strategy: Any = None
    compactor: Any = None
