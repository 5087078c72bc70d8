"""Tables: PyFlink's ``table``, and the parts of its calls."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.table.grouped_tables import (
        AggregatedTable,
        FlatAggregateTable,
        GroupedTable,
        GroupWindowedTable,
        OverWindowedTable,
        WindowGroupedTable,
    )
    from penstock.table.table.table import Table

__all__ = [
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "Table",
    "WindowGroupedTable",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AggregatedTable": "grouped_tables",
        "FlatAggregateTable": "grouped_tables",
        "GroupWindowedTable": "grouped_tables",
        "GroupedTable": "grouped_tables",
        "OverWindowedTable": "grouped_tables",
        "WindowGroupedTable": "grouped_tables",
        "Table": "table",
    },
)
