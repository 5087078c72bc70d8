"""filesystem: tables in files of a folder, by lines or columns, partitioned by folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connectors.files.source import FileSource, path_of_files
from penstock.table import types
from penstock.table.connectors import file_formats, file_sinks, partition_commits
from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    INSERT_ONLY,
    SINK_PARALLELISM,
    ConnectorFactory,
    TableContext,
    TableSink,
    TableSource,
)
from penstock.table.connectors.record_types import batch_type
from penstock.table.exceptions import ValidationException
from penstock.table.formats.registry import row_format_class, row_format_names
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    duration_ms,
    memory_bytes,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.file_formats import TableFileFormat
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.formats.row_format import RowFormat
    from penstock.table.plan.predicates import Predicate

METADATA: Final[dict[str, types.DataType]] = {
    "file.path": types.DataTypes.STRING().not_null(),
    "file.name": types.DataTypes.STRING().not_null(),
    "file.size": types.DataTypes.BIGINT().not_null(),
    "file.modification-time": types.DataTypes.TIMESTAMP_LTZ(3).not_null(),
}
"""The metadata columns of files."""


class FilesystemFactory(ConnectorFactory):
    """Creates sources and sinks of tables in files."""

    identifier = "filesystem"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "path": OptionSpec(text, is_required=True),
        "partition.default-name": OptionSpec(text, "__DEFAULT_PARTITION__"),
        "source.monitor-interval": OptionSpec(duration_ms),
        "source.path.regex-pattern": OptionSpec(text),
        "sink.rolling-policy.file-size": OptionSpec(memory_bytes, 128 << 20),
        "sink.rolling-policy.rollover-interval": OptionSpec(duration_ms, 30 * 60_000),
        "sink.rolling-policy.inactivity-interval": OptionSpec(duration_ms, 30 * 60_000),
        "sink.rolling-policy.check-interval": OptionSpec(duration_ms, 60_000),
        "sink.shuffle-by-partition.enable": OptionSpec(boolean, False),
        **partition_commits.OPTIONS,
        "auto-compaction": OptionSpec(file_sinks.auto_compaction, False),
        "sink.parallelism": SINK_PARALLELISM,
    }

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context, format_keys=("format",))
        row_type = context.physical_type
        stored = _without(row_type, context.partition_keys)
        file_format = self._file_format(context, row_type, stored)
        return FilesystemSource(
            path_of_files("connector 'filesystem'", values["path"]),
            replace_partition(file_format, context, values["partition.default-name"]),
            values["source.monitor-interval"],
        )

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context, format_keys=("format",))
        row_type = context.schema.to_sink_row_data_type()
        stored = _without(row_type, context.partition_keys)
        name = context.options.get("format", "")
        if name in file_formats.BULK_FORMATS:
            writer: Any = file_sinks.BulkFiles(name, stored, self._bulk_options(context, name))
        else:
            writer = file_sinks.LineFiles(self._line_format(context, stored))
        partition = [row_type.field_names().index(key) for key in context.partition_keys]
        return file_sinks.FilesystemSink(
            path_of_files("connector 'filesystem'", values["path"]),
            row_type,
            partition,
            writer,
            values,
            is_streaming=context.is_streaming,
        )

    def _file_format(
        self, context: TableContext, row_type: types.RowType, stored: types.RowType
    ) -> TableFileFormat:
        name = context.options.get("format")
        if name is not None and name in file_formats.BULK_FORMATS:
            return file_formats.bulk_format(
                name, row_type, stored, self._bulk_options(context, name)
            )
        return file_formats.LinesOfTable(row_type, stored, self._line_format(context, stored))

    def _line_format(self, context: TableContext, stored: types.RowType) -> RowFormat:
        """Return the format of lines.

        Raises:
            ValidationException: The format's messages are not lines.
        """
        found = self.row_format(context, stored)
        if not found.is_text:
            lines = [n for n in row_format_names() if row_format_class(n, self.identifier).is_text]
            raise ValidationException(
                f"The format '{found.identifier}' has no lines, so files cannot hold it. Formats "
                f"of files: {', '.join(sorted([*file_formats.BULK_FORMATS, *lines]))}"
            )
        return found

    def _bulk_options(self, context: TableContext, name: str) -> dict[str, str]:
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): value
            for key, value in context.options.items()
            if key.startswith(prefix)
        }


def replace_partition(
    file_format: TableFileFormat, context: TableContext, default_name: str
) -> TableFileFormat:
    """Return a file format that reads partition columns from the paths of files."""
    file_format.partition_keys = context.partition_keys
    file_format.default_partition = default_name
    return file_format


def _without(row_type: types.RowType, names: Sequence[str]) -> types.RowType:
    unknown = [name for name in names if name not in row_type.field_names()]
    if unknown:
        raise ValidationException(
            f"The table is partitioned by {unknown[0]}, which is not a physical column: it has "
            f"{', '.join(row_type.field_names())}"
        )
    return types.RowType([field for field in row_type if field.name not in names])


class FilesystemSource(TableSource):
    """Reads the files of a folder.

    Args:
        path: The folder or file, or a URL.
        file_format: The format of the files.
        interval_ms: The interval between two searches for new files; None for a single search.
    """

    def __init__(
        self, path: str, file_format: TableFileFormat, interval_ms: int | None = None
    ) -> None:
        self._path = path
        self._format = file_format
        self._interval_ms = interval_ms
        self.is_bounded = interval_ms is None
        self.kinds = ALL_KINDS if file_format.with_kinds else INSERT_ONLY
        self.metadata = METADATA

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source that reads metadata columns after the physical ones."""
        return FilesystemSource(self._path, self._format.with_metadata(keys), self._interval_ms)

    def with_columns(self, positions: Sequence[int]) -> TableSource:
        """Return a source that parses only some of the columns."""
        return FilesystemSource(self._path, self._format.with_columns(positions), self._interval_ms)

    def with_predicates(self, predicates: Sequence[Predicate]) -> TableSource | None:
        """Return a source that skips files and pieces of files without wanted rows."""
        made = self._format.with_predicates(predicates)
        return None if made is None else FilesystemSource(self._path, made, self._interval_ms)

    def explanation(self) -> str | None:
        """Return whether lines are read as columns; None for files of columns."""
        return self._format.explanation()

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that reads the files."""
        from penstock.common.watermark_strategy import WatermarkStrategy

        source = FileSource(self._format, (self._path,), discovery_interval_ms=self._interval_ms)
        stream = context.environment.from_source(
            source, WatermarkStrategy.no_watermarks(), "filesystem", batch_type(None)
        )
        return stream.transformation
