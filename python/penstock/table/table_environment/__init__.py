"""Environments: PyFlink's ``table_environment``, and conversions of rows and streams."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.table_environment.table_environment import (
        StreamTableEnvironment,
        TableEnvironment,
    )

__all__ = [
    "StreamTableEnvironment",
    "TableEnvironment",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "StreamTableEnvironment": "table_environment",
        "TableEnvironment": "table_environment",
    },
)
