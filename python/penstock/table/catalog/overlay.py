"""CatalogOverlay: the catalogs of an environment, as the planning of a stored plan sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.catalog.manager import CatalogManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.catalog.objects import CatalogBaseTable, CatalogFunction, ObjectIdentifier


class CatalogOverlay(CatalogManager):
    """The catalogs of an environment, with temporary objects of its own.

    Args:
        base: The catalogs of the environment, which do not change.

    Attributes:
        tables: The tables and views that were found, by name.
        functions: The permanent functions that were found, by name.
    """

    def __init__(self, base: CatalogManager) -> None:
        super().__init__(base.current_catalog, base.current_database)
        self._base = base
        self._catalogs = base._catalogs
        self._temporary = dict(base._temporary)
        self._temporary_functions = dict(base._temporary_functions)
        self._system_functions = base._system_functions
        self.tables: dict[ObjectIdentifier, CatalogBaseTable] = {}
        self.functions: dict[ObjectIdentifier, CatalogFunction] = {}

    def find_table(self, identifier: ObjectIdentifier) -> CatalogBaseTable | None:
        """Return a table or view, and record it; None if it does not exist."""
        found = super().find_table(identifier)
        if found is not None:
            self.tables[identifier] = found
        return found

    def catalog_function(
        self, path: Sequence[str], namespace: tuple[str, str] | None = None
    ) -> CatalogFunction | None:
        """Return the entry of a user's function, and record it if it is permanent."""
        found = super().catalog_function(path, namespace)
        identifier = self.function_identifier(path, namespace)
        is_system = len(path) == 1 and path[0].lower() in self._system_functions
        is_temporary = identifier in self._base._temporary_functions
        if found is not None and not is_system and not is_temporary:
            self.functions[identifier] = found
        return found

    def put_table(self, identifier: ObjectIdentifier, table: CatalogBaseTable) -> None:
        """Add a table or view, which hides those of the catalogs."""
        self._temporary[identifier] = table

    def put_function(self, identifier: ObjectIdentifier, function: CatalogFunction) -> None:
        """Add a function, which hides those of the catalogs."""
        self._temporary_functions[identifier] = function
