"""FileSink: records written into files."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.connectors.base import Sink, StreamTransformer, SupportsPreprocessing
from penstock.connectors.files.buckets import BucketAssigner, OutputFileConfig, RollingPolicy
from penstock.connectors.files.source import path_of_files
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from penstock.connectors.files.compaction import FileCompactor, FileCompactStrategy
    from penstock.connectors.files.partition_commit import (
        PartitionCommit,
        PartitionCommitContext,
        PartitionCommitPolicy,
        PartitionCommitTrigger,
    )


class FileSink(Sink, SupportsPreprocessing, NoJavaMembers):
    """Sink that writes part files below a folder.

    A file is hidden while it is written (its name begins with a dot).  It gets its final name when
    a checkpoint that contains its end is complete; without checkpoints, at the end of the input.
    """

    def __init__(
        self,
        operator: operators.FileSink,
        compactor: operators.FileCompactor | None = None,
        partition_commit: PartitionCommit | None = None,
    ) -> None:
        """Create a sink; use `for_row_format` and `for_bulk_format`."""
        super().__init__(None)
        self._operator = operator
        self._compactor = compactor
        self._partition_commit = partition_commit
        self._replaced: tuple[str, ...] = ()

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder of a sink that writes single records.

        Raises:
            InvalidProgramError: The argument is not an encoder.
        """
        given: Any = encoder
        if not isinstance(given, Encoder):
            raise WrongArgumentError(f"for_row_format takes an Encoder, got {given!r}")
        return FileSink.RowFormatBuilder(path_of_files("for_row_format", base_path), encoder)

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> FileSink.BulkFormatBuilder:
        """Return a builder of a sink that writes batches.

        Raises:
            InvalidProgramError: The argument is not a factory of bulk writers.
        """
        given: Any = writer_factory
        if not isinstance(given, BulkWriterFactory):
            raise WrongArgumentError(f"for_bulk_format takes a BulkWriterFactory, got {given!r}")
        return FileSink.BulkFormatBuilder(
            path_of_files("for_bulk_format", base_path), writer_factory
        )

    def get_transformer(self) -> StreamTransformer[Any] | None:
        """Return None: the stream is written as it is."""
        return None

    def replacing(self, paths: Sequence[str]) -> FileSink:
        """Return a sink that replaces files (beyond PyFlink).

        Args:
            paths: Local files, each of which is deleted once a file of the job in the same folder
                has its final name.
        """
        made = copy(self)
        made._replaced = tuple(paths)
        return made

    def sink_operator(self) -> operators.FileSink:
        """Return the operator that writes the files."""
        return self._operator

    def committer_operator(self) -> operators.FileCommitter:
        """Return the operator that commits the files."""
        return operators.FileCommitter(self._partition_commit, self._replaced)

    def compactor_operator(self) -> operators.FileCompactor | None:
        """Return the operator that compacts the files."""
        return self._compactor

    def has_global_committer(self) -> bool:
        """Return whether one committer serves all writers: a partition has files of several."""
        return self._partition_commit is not None

    @partial(checks_arguments, called="FileSink")
    class BaseBuilder(NoJavaMembers):
        """Builder of a FileSink."""

        def __init__(self, base_path: str, encoder: Encoder | None) -> None:
            self._base_path = base_path
            self._encoder = encoder
            self._bulk_writer_factory: BulkWriterFactory | None = None
            self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
            self._bucket_check_interval_ms = 60_000
            self._rolling_policy: RollingPolicy = RollingPolicy.default_rolling_policy()
            self._output_file_config = OutputFileConfig.builder().build()
            self._compaction: tuple[Any, Any] | None = None
            self._partition_commit: PartitionCommit | None = None

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Set the interval, in ms, at which files are checked for age and inactivity."""
            if interval <= 0:
                raise InvalidProgramError(f"an interval must be positive, got {interval} ms")
            self._bucket_check_interval_ms = interval
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set the folder of a record.

            Raises:
                InvalidProgramError: It is of a subclass without `get_bucket_id`, whose records
                    would all be in the sink's own folder.
            """
            kind = type(bucket_assigner)
            if (
                kind is not BucketAssigner
                and kind.get_bucket_id is BucketAssigner.get_bucket_id
                and getattr(bucket_assigner, "_strftime_format", None) is None
            ):
                raise InvalidProgramError(
                    f"with_bucket_assigner: {kind.__name__} has no method "
                    "get_bucket_id(element, processing_time_ms), which names the folder of a record"
                )
            self._bucket_assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the names of the files."""
            self._output_file_config = output_file_config
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Compact files before they are committed.

            Args:
                strategy: The condition of a compaction.
                compactor: The kind of compaction.

            Raises:
                InvalidProgramError: The compactor concatenates bytes, and files of this format
                    would be unreadable then.
            """
            from penstock.connectors.files.compaction import FileCompactor, FileCompactStrategy

            given: tuple[Any, Any] = (strategy, compactor)
            if not isinstance(given[0], FileCompactStrategy):
                raise WrongArgumentError(
                    f"enable_compact takes a FileCompactStrategy, got {strategy!r}"
                )
            if not isinstance(given[1], FileCompactor):
                raise WrongArgumentError(f"enable_compact takes a FileCompactor, got {compactor!r}")
            factory = self._bulk_writer_factory
            if (
                compactor.kind == FileCompactor.CONCAT
                and factory is not None
                and not factory.can_be_concatenated
            ):
                raise InvalidProgramError(
                    f"enable_compact: the concatenation of two files of {type(factory).__name__} "
                    "is not a valid file: use FileCompactor.record_wise_file_compactor with the "
                    "format that reads them"
                )
            self._compaction = (strategy, compactor)
            return self

        def disable_compact(self) -> Self:
            """Compact no files, and commit those that a former job has stored for compaction."""
            self._compaction = (None, None)
            return self

        def with_partition_commit(
            self,
            trigger: PartitionCommitTrigger,
            *policies: PartitionCommitPolicy | Callable[[PartitionCommitContext], object],
        ) -> Self:
            """Commit folders that are complete (beyond PyFlink).

            Args:
                trigger: The condition under which a folder is committed.
                policies: Actions that commit it, in their order: `PartitionCommitPolicy` objects,
                    or functions of a `PartitionCommitContext`; without any, a success file.

            Raises:
                InvalidProgramError: One of the arguments is of another kind.
            """
            from penstock.connectors.files import partition_commit

            chosen = policies or (partition_commit.PartitionCommitPolicy.success_file(),)
            self._partition_commit = partition_commit.PartitionCommit(
                self._base_path, trigger, tuple(map(partition_commit.policy_of, chosen))
            )
            return self

        @abstractmethod
        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the policy that ends files."""

        def build(self) -> FileSink:
            """Return the sink.

            Raises:
                InvalidProgramError: Settings exclude each other.
            """
            operator = self._operator()
            if self._partition_commit is not None:
                from penstock.connectors.files.partition_commit import check_folders

                check_folders(self._bucket_assigner, self._partition_commit.trigger)
            if self._compaction is None:
                return FileSink(operator, None, self._partition_commit)
            if self._partition_commit is not None:
                raise InvalidProgramError(
                    "with_partition_commit and enable_compact exclude each other: the compactor "
                    "still holds files when their folder is due; use a rolling policy with larger "
                    "files instead"
                )
            strategy, compactor = self._compaction
            return FileSink(
                operator,
                operators.FileCompactor(sink=operator, strategy=strategy, compactor=compactor),
            )

        def _part_suffix(self) -> str:
            config, factory = self._output_file_config, self._bulk_writer_factory
            if config.has_own_suffix or factory is None:
                return config.get_part_suffix()
            return factory.part_suffix

        def _operator(self, *, named_by_subtask: bool = False) -> operators.FileSink:
            return operators.FileSink(
                base_path=self._base_path,
                encoder=self._encoder,
                bulk_writer_factory=self._bulk_writer_factory,
                bucket_assigner=self._bucket_assigner,
                bucket_check_interval_ms=self._bucket_check_interval_ms,
                rolling_policy=self._rolling_policy,
                part_prefix=self._output_file_config.get_part_prefix(),
                part_suffix=self._part_suffix(),
                named_by_subtask=named_by_subtask,
                commit_trigger=None
                if self._partition_commit is None
                else self._partition_commit.trigger,
            )

    @checks_arguments
    class RowFormatBuilder(BaseBuilder):
        """Builder of a sink that writes single records."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the policy that ends files."""
            self._rolling_policy = rolling_policy
            return self

    class BulkFormatBuilder(BaseBuilder):
        """Builder of a sink that writes batches; its files end at checkpoints only."""

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            super().__init__(base_path, None)
            self._bulk_writer_factory = writer_factory
            self._rolling_policy = RollingPolicy.on_checkpoint_rolling_policy()

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the policy that ends files, which must do so at checkpoints."""
            from penstock.connectors.files.buckets import OnCheckpointRollingPolicy

            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise InvalidProgramError(
                    "rolling_policy of bulk formats must be on_checkpoint_rolling_policy()"
                )
            self._rolling_policy = rolling_policy
            return self
