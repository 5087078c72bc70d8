"""Scan of a table, shared by its enumerator and its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.iceberg.library import iceberg_library, opening_of
from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.common.composite_types import RowTypeInfo


class TableDescription:
    """Scan of a table: its columns, rows and snapshots.

    Attributes:
        table: The table, with its namespace.
        catalog: The name of its catalog, and the catalog's properties.
        schema: The columns to read, by their field ids, which survive renaming.
        row_type: The type of the rows.
        row_filter: The filter of the rows, in pyiceberg's syntax.
        discovery_interval_ms: The interval between two searches for new snapshots; None for a
            single search.
        first_snapshot: The snapshot whose rows come first; None if the table has none yet.
        with_snapshot: Whether the rows of that snapshot are read.
    """

    table: str
    catalog: tuple[str, dict[str, str]]
    schema: Any
    row_type: RowTypeInfo
    row_filter: Any
    discovery_interval_ms: int | None = None
    first_snapshot: int | None = None
    with_snapshot = True

    def opened(self) -> Any:
        """Load the table's current state.

        Raises:
            SourceError: The table does not exist, or the catalog fails.
        """
        with opening_of(self.table, self.catalog[0], "IcebergSource", SourceError):
            return self.loaded()

    def loaded(self) -> Any:
        """Load the table's current state for a caller that retries; raise pyiceberg's errors."""
        name, properties = self.catalog
        catalog = iceberg_library("IcebergSource").load_catalog(name, **properties)
        return catalog.load_table(self.table)
