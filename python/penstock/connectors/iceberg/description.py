"""Scan of a table, as its enumerator and its readers know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.iceberg.library import iceberg_library, opening_of
from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.common.composite_types import RowTypeInfo


class TableDescription:
    """Describes what is read of a table.

    Attributes:
        table: The table, with its namespace.
        catalog: The name of its catalog, and the catalog's properties.
        schema: What is read, by the numbers of its fields, which outlive their names.
        row_type: The type of the rows.
        row_filter: Which rows are read, as pyiceberg understands it.
        discovery_interval_ms: Between two looks for new snapshots; None never looks.
        first_snapshot: The snapshot whose rows come first; None of what has none yet.
        with_snapshot: Whether they come at all.
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
        """The table as it is now.

        Raises:
            SourceError: There is none, or the catalog does not give it.
        """
        with opening_of(self.table, self.catalog[0], "IcebergSource", SourceError):
            return self.loaded()

    def loaded(self) -> Any:
        """The table as it is now, for who asks again; raises what pyiceberg raises."""
        name, properties = self.catalog
        catalog = iceberg_library("IcebergSource").load_catalog(name, **properties)
        return catalog.load_table(self.table)
