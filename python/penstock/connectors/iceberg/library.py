"""The package pyiceberg, and tables as a program names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.optional_library import optional_library
from penstock.connectors.tables import opening
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from penstock.errors import PenstockError


def iceberg_library(used_by: str) -> Any:
    """The module ``pyiceberg.catalog``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("pyiceberg.catalog", "pyiceberg", "iceberg", used_by)


def opening_of(
    table: str, catalog: str, used_by: str, failure: type[PenstockError]
) -> AbstractContextManager[None]:
    """Says which table of which catalog could not be opened, whatever is raised for it."""
    return opening(
        f"the table {table} of the catalog {catalog!r} for {used_by}",
        failure,
        "the table's name, the properties of the catalog and what its user may do",
    )


def check_catalog(catalog: Mapping[str, str], name: str, used_by: str) -> None:
    """Looks at the name of a catalog, and at its kind if its properties say one.

    Raises:
        InvalidProgramError: There is none.
    """
    if not name:
        raise InvalidProgramError(f"{used_by}: name is that of a catalog, got ''")
    kinds = [kind.value for kind in iceberg_library(used_by).CatalogType]
    kind = catalog.get("type")
    if kind is not None and kind.lower() not in kinds:
        raise InvalidProgramError(
            f"{used_by}: the type of a catalog is one of {', '.join(kinds)}, got {kind!r}"
        )


def check_table_name(table: str, used_by: str) -> None:
    """Looks whether a table is named with its namespace.

    Raises:
        InvalidProgramError: It is not.
    """
    if len([part for part in table.split(".") if part]) < 2:
        raise InvalidProgramError(
            f"{used_by} takes a table with its namespace, as 'shop.orders', got {table!r}"
        )
