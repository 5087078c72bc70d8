"""IcebergSource: the rows of a table of Apache Iceberg, and those appended later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.types import Row
from penstock.connectors.iceberg.description import TableDescription
from penstock.connectors.iceberg.enumerator import IcebergEnumerator
from penstock.connectors.iceberg.library import check_table_name, iceberg_library
from penstock.connectors.iceberg.reader import IcebergReader, TableFile
from penstock.connectors.split_source import Boundedness, PythonSource
from penstock.connectors.tables import check_columns
from penstock.errors import InvalidProgramError
from penstock.formats.arrow_types import row_type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.split_source import (
        SourceReader,
        SourceReaderContext,
        SplitEnumerator,
        SplitEnumeratorContext,
    )


@checks_arguments
class IcebergSource(TableDescription, PythonSource[Row, TableFile]):
    """Source of a table's rows; use `for_snapshot` or `for_appends` (beyond PyFlink)."""

    def __init__(
        self,
        table: str,
        columns: Sequence[str] | None,
        row_filter: str | None,
        snapshot_id: int | None,
        catalog: tuple[str, dict[str, str]],
    ) -> None:
        """Create a source; use the static methods."""
        super().__init__()
        iceberg_library("IcebergSource")
        check_table_name(table, "IcebergSource")
        check_columns(columns, "IcebergSource")
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.expressions.parser import parse
        from pyiceberg.expressions.visitors import bind
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self.table = table
        self.catalog = catalog
        try:
            self.row_filter = AlwaysTrue() if row_filter is None else parse(row_filter)
        except Exception as error:
            raise InvalidProgramError(
                f'IcebergSource: {row_filter!r} is not a filter such as "price > 2": {error}'
            ) from error
        found = self.opened()
        snapshot = found.current_snapshot()
        schema = found.schema()
        if snapshot_id is not None:
            snapshot = found.snapshot_by_id(snapshot_id)
            if snapshot is None:
                there = [one.snapshot_id for one in found.snapshots()]
                raise InvalidProgramError(
                    f"IcebergSource: {table} has no snapshot {snapshot_id}, it has {there}"
                )
            schema = found.schemas()[snapshot.schema_id]
        self.first_snapshot = None if snapshot is None else snapshot.snapshot_id
        names = [field.name for field in schema.fields]
        for name in columns or ():
            if name not in names:
                raise InvalidProgramError(
                    f"IcebergSource: {table} has no column {name!r}, it has {names}"
                )
        try:
            bind(schema, self.row_filter, case_sensitive=True)
        except (ValueError, TypeError) as error:
            raise InvalidProgramError(
                f"IcebergSource: {row_filter!r} is not a filter of {table} with {names}: {error}"
            ) from error
        self.schema = schema if columns is None else schema.select(*columns)
        arrow = schema_to_pyarrow(self.schema, include_field_ids=False)
        if columns is not None:
            import pyarrow as pa

            arrow = pa.schema([arrow.field(name) for name in columns])
        self.row_type = row_type_of(arrow, "IcebergSource")

    @staticmethod
    def for_snapshot(
        table: str,
        columns: Sequence[str] | None = None,
        *,
        catalog: Mapping[str, str],
        name: str = "default",
        snapshot_id: int | None = None,
        row_filter: str | None = None,
    ) -> IcebergSource:
        """Return a source of the table's rows in one snapshot.

        Args:
            table: The table, with its namespace: ``shop.orders``.
            columns: The columns to read, in this order; all if None.
            catalog: The properties of the catalog as pyiceberg's ``load_catalog`` takes them.
            name: The name of the catalog.
            snapshot_id: The snapshot; the newest if None.
            row_filter: The filter of the rows, as ``"price > 2 and item = 'tea'"``; all rows if
                None.

        Raises:
            InvalidProgramError: There is no such snapshot or column, or the filter is invalid.
            DependencyError: pyiceberg is not installed.
            SourceError: The table does not exist, or the catalog fails.
        """
        return IcebergSource(table, columns, row_filter, snapshot_id, (name, dict(catalog)))

    @staticmethod
    def for_appends(
        table: str,
        columns: Sequence[str] | None = None,
        *,
        catalog: Mapping[str, str],
        name: str = "default",
        snapshot: bool = True,
        start_snapshot_id: int | None = None,
        discovery_interval_ms: int = 10_000,
        row_filter: str | None = None,
    ) -> IcebergSource:
        """Return a source of the table's rows, followed by the rows that are appended later.

        The source never ends.  A snapshot that deletes or overwrites rows fails the job, because
        the source cannot emit deletions.  A snapshot that only merges files adds nothing.

        Args:
            table: The table, with its namespace: ``shop.orders``.
            columns: The columns to read, in this order; all if None.
            catalog: The properties of the catalog as pyiceberg's ``load_catalog`` takes them.
            name: The name of the catalog.
            snapshot: Whether to start with all rows of the snapshot; otherwise with the rows that
                are appended after it.
            start_snapshot_id: The snapshot; by default the newest one when the program is built.
            discovery_interval_ms: The interval between two searches for new snapshots.
            row_filter: The filter of the rows, as ``"price > 2 and item = 'tea'"``; all rows if
                None.

        Raises:
            InvalidProgramError: There is no such snapshot or column, the filter is invalid, or the
                interval is not positive.
            DependencyError: pyiceberg is not installed.
            SourceError: The table does not exist, or the catalog fails.
        """
        if discovery_interval_ms <= 0:
            raise InvalidProgramError(
                f"IcebergSource: an interval must be positive, got {discovery_interval_ms} ms"
            )
        source = IcebergSource(table, columns, row_filter, start_snapshot_id, (name, dict(catalog)))
        source.discovery_interval_ms = discovery_interval_ms
        source.with_snapshot = snapshot
        return source

    def get_boundedness(self) -> Boundedness:
        """Return whether the source ends: it does unless it searches for new snapshots."""
        is_bounded = self.discovery_interval_ms is None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> RowTypeInfo:
        """Return the row type of the columns."""
        return self.row_type

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[TableFile]
    ) -> SplitEnumerator[TableFile]:
        """Create the enumerator."""
        return IcebergEnumerator(self, enum_context)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[TableFile], state: Any
    ) -> SplitEnumerator[TableFile]:
        """Restore the enumerator."""
        return IcebergEnumerator(self, enum_context, state)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[TableFile]:
        """Create the reader of a subtask."""
        return IcebergReader(self, reader_context)
