"""The package pyiceberg, and tables as a program names them."""

from __future__ import annotations

from typing import Any

from penstock.common.optional_library import optional_library
from penstock.errors import InvalidProgramError


def iceberg_library(used_by: str) -> Any:
    """The module ``pyiceberg.catalog``.

    Raises:
        DependencyError: It is not installed.
    """
    return optional_library("pyiceberg.catalog", "pyiceberg", "iceberg", used_by)


def check_table_name(table: str, used_by: str) -> None:
    """Looks whether a table is named with its namespace.

    Raises:
        InvalidProgramError: It is not.
    """
    if len([part for part in table.split(".") if part]) < 2:
        raise InvalidProgramError(
            f"{used_by} takes a table with its namespace, as 'shop.orders', got {table!r}"
        )
