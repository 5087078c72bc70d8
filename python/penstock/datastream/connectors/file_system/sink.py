"""FileSink: elements written into files."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common.argument_kinds import checks_arguments
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.datastream.connectors.base import Sink, StreamTransformer, SupportsPreprocessing
from penstock.datastream.connectors.file_system.buckets import (
    BucketAssigner,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.datastream.connectors.file_system.source import sink_path
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators

if TYPE_CHECKING:
    from typing import Self

    from penstock.datastream.connectors.file_system.compaction import (
        FileCompactor,
        FileCompactStrategy,
    )


class FileSink(Sink, SupportsPreprocessing):
    """Writes part files below a folder.

    A file is hidden while it is written (its name begins with a dot), and gets its name when a
    checkpoint that holds its end is complete; without checkpoints, at the end of the input.
    """

    def __init__(self, operator: operators.FileSink) -> None:
        """Makes a sink; use `for_row_format`."""
        super().__init__(None)
        self._operator = operator

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Starts a sink that writes element after element.

        Raises:
            InvalidProgramError: The encoder is none.
        """
        given: Any = encoder
        if not isinstance(given, Encoder):
            raise WrongArgumentError(f"for_row_format takes an Encoder, got {given!r}")
        return FileSink.RowFormatBuilder(sink_path(base_path), encoder)

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> FileSink.BulkFormatBuilder:
        """Starts a sink whose files are written in batches.

        Raises:
            InvalidProgramError: The factory is none.
        """
        given: Any = writer_factory
        if not isinstance(given, BulkWriterFactory):
            raise WrongArgumentError(f"for_bulk_format takes a BulkWriterFactory, got {given!r}")
        return FileSink.BulkFormatBuilder(sink_path(base_path), writer_factory)

    def get_transformer(self) -> StreamTransformer | None:
        """None: the stream is written as it is."""
        return None

    def sink_operator(self) -> operators.FileSink:
        """Writes the files."""
        return self._operator

    def committer_operator(self) -> operators.FileCommitter:
        """Gives the files their names."""
        return operators.FileCommitter()

    @checks_arguments
    class BaseBuilder:
        """Collects the settings of a FileSink."""

        def __init__(self, base_path: str, encoder: Encoder | None) -> None:
            self._base_path = base_path
            self._encoder = encoder
            self._bulk_writer_factory: BulkWriterFactory | None = None
            self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
            self._bucket_check_interval_ms = 60_000
            self._rolling_policy: RollingPolicy = RollingPolicy.default_rolling_policy()
            self._output_file_config = OutputFileConfig("part", "")

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Sets how often files are checked for age and inactivity, in ms."""
            if interval <= 0:
                raise InvalidProgramError(f"an interval must be positive, got {interval} ms")
            self._bucket_check_interval_ms = interval
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Sets the folder of an element."""
            self._bucket_assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Sets how the files are called."""
            self._output_file_config = output_file_config
            return self

        def enable_compact(
            self,
            strategy: FileCompactStrategy,  # noqa: ARG002
            compactor: FileCompactor,  # noqa: ARG002
        ) -> NoReturn:
            """Refused: files are not put together.

            Raises:
                InvalidProgramError: Always.
            """
            raise InvalidProgramError(
                "FileSink.enable_compact: penstock does not put files together; make them larger "
                "by with_rolling_policy(RollingPolicy.default_rolling_policy(part_size, "
                "rollover_interval, inactivity_interval))"
            )

        def disable_compact(self) -> Self:
            """Leaves small files as they are; always so."""
            return self

        @abstractmethod
        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Sets when a new file begins."""

        def build(self) -> FileSink:
            """The sink."""
            return FileSink(self._operator())

        def _operator(self, *, named_by_subtask: bool = False) -> operators.FileSink:
            return operators.FileSink(
                base_path=self._base_path,
                encoder=self._encoder,
                bulk_writer_factory=self._bulk_writer_factory,
                bucket_assigner=self._bucket_assigner,
                bucket_check_interval_ms=self._bucket_check_interval_ms,
                rolling_policy=self._rolling_policy,
                part_prefix=self._output_file_config.get_part_prefix(),
                part_suffix=self._output_file_config.get_part_suffix(),
                named_by_subtask=named_by_subtask,
            )

    @checks_arguments
    class RowFormatBuilder(BaseBuilder):
        """A sink that writes element after element."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Sets when a new file begins."""
            self._rolling_policy = rolling_policy
            return self

    class BulkFormatBuilder(BaseBuilder):
        """A sink that writes batches; its files end at checkpoints only."""

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            super().__init__(base_path, None)
            self._bulk_writer_factory = writer_factory
            self._rolling_policy = RollingPolicy.on_checkpoint_rolling_policy()

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Sets when a new file begins; it must be at checkpoints."""
            from penstock.datastream.connectors.file_system.buckets import (
                OnCheckpointRollingPolicy,
            )

            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise InvalidProgramError(
                    "rolling_policy of bulk formats must be on_checkpoint_rolling_policy()"
                )
            self._rolling_policy = rolling_policy
            return self
