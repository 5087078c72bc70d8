"""StreamingFileSink: the predecessor of FileSink, for `add_sink`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import path_of_files
from penstock.datastream.functions.source_sink import SinkFunction
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from typing import Self

    from penstock.connectors.files.buckets import RollingPolicy


class StreamingFileSink(SinkFunction):
    """Writes as `FileSink` does, but names files by subtask and number: `part-0-0`.

    A number that is in use is skipped, and numbers continue after a failure.
    """

    def __init__(self, j_obj: object) -> None:
        """Create a sink; use `for_row_format`.

        Raises:
            JvmOnlyError: A Java sink was passed.
        """
        if not isinstance(j_obj, FileSink):
            requires_jvm("StreamingFileSink(j_obj)", "use for_row_format")
        self._file_sink = j_obj

    def _as_sink(self) -> FileSink:
        return self._file_sink

    @staticmethod
    def for_row_format(
        base_path: str, encoder: Encoder
    ) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Return a builder of a sink that writes single records.

        Raises:
            WrongArgumentError: The argument is not an encoder.
        """
        given: Any = encoder
        if not isinstance(given, Encoder):
            raise WrongArgumentError(f"for_row_format takes an Encoder, got {given!r}")
        return StreamingFileSink.DefaultRowFormatBuilder(
            path_of_files("for_row_format", base_path), encoder
        )

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Return a builder of a sink that writes batches.

        Raises:
            WrongArgumentError: The argument is not a factory of bulk writers.
        """
        given: Any = writer_factory
        if not isinstance(given, BulkWriterFactory):
            raise WrongArgumentError(f"for_bulk_format takes a BulkWriterFactory, got {given!r}")
        return StreamingFileSink.DefaultBulkFormatBuilder(
            path_of_files("for_bulk_format", base_path), writer_factory
        )

    class BaseBuilder(FileSink.BaseBuilder):
        """Builder of a StreamingFileSink."""

        def enable_compact(self, strategy: object, compactor: object) -> NoReturn:  # noqa: ARG002
            """Reject the call: the older sink does not compact files.

            Raises:
                InvalidProgramError: Always.
            """
            raise InvalidProgramError(
                "StreamingFileSink does not compact files: use FileSink, whose enable_compact does"
            )

        def disable_compact(self) -> Self:
            """Do nothing: the older sink does not compact files."""
            return self

        def build(self) -> StreamingFileSink:  # type: ignore[override]
            """Return the sink."""
            return StreamingFileSink(FileSink(self._operator(named_by_subtask=True)))

    @checks_arguments
    class DefaultRowFormatBuilder(BaseBuilder):
        """Builder of a StreamingFileSink that writes single records."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            """Set the policy that ends files."""
            self._rolling_policy = policy
            return self

    class DefaultBulkFormatBuilder(BaseBuilder, FileSink.BulkFormatBuilder):
        """Builder of a StreamingFileSink that writes batches; its files end at checkpoints only."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            """Set the policy that ends files, which must do so at checkpoints."""
            return super().with_rolling_policy(policy)
