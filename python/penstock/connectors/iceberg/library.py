"""The package pyiceberg, and checks of a table's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.packages.optional_library import optional_library
from penstock.connectors.tables import opening
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from penstock.errors import PenstockError


def iceberg_library(used_by: str) -> Any:
    """Import the module ``pyiceberg.catalog``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("pyiceberg.catalog", "pyiceberg", "iceberg", used_by)


def opening_of(
    table: str, catalog: str, used_by: str, failure: type[PenstockError]
) -> AbstractContextManager[None]:
    """Convert any error of opening a table to one that names the table and the catalog."""
    return opening(
        f"the table {table} of the catalog {catalog!r} for {used_by}",
        failure,
        "the table's name, the properties of the catalog and what its user may do",
    )


def check_catalog(catalog: Mapping[str, str], name: str, used_by: str) -> None:
    """Check the name of a catalog, and its type if its properties name one.

    Raises:
        InvalidProgramError: The name is empty, or the type is unknown.
    """
    if not name:
        raise InvalidProgramError(f"{used_by}: name must name a catalog, got ''")
    kinds = [kind.value for kind in iceberg_library(used_by).CatalogType]
    kind = catalog.get("type")
    if kind is not None and kind.lower() not in kinds:
        raise InvalidProgramError(
            f"{used_by}: the type of a catalog is one of {', '.join(kinds)}, got {kind!r}"
        )


def check_table_name(table: str, used_by: str) -> None:
    """Check that a table is named with its namespace.

    Raises:
        InvalidProgramError: The namespace is missing.
    """
    if len([part for part in table.split(".") if part]) < 2:
        raise InvalidProgramError(
            f"{used_by} takes a table with its namespace, as 'shop.orders', got {table!r}"
        )
