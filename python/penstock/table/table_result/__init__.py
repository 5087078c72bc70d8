"""Results: PyFlink's ``table_result``, and tables as text."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.table_result.table_result import CloseableIterator, TableResult

__all__ = [
    "CloseableIterator",
    "TableResult",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CloseableIterator": "table_result",
        "TableResult": "table_result",
    },
)
