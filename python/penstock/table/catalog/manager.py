"""CatalogManager: finds tables and functions of one environment by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table import exceptions as errors
from penstock.table.catalog.catalog import Catalog, GenericInMemoryCatalog
from penstock.table.catalog.objects import (
    CatalogBaseTable,
    CatalogFunction,
    ObjectIdentifier,
    ObjectPath,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class CatalogManager:
    """The catalogs of an environment, its temporary objects, and name resolution.

    Args:
        catalog_name: The name of the built-in catalog.
        database_name: The name of its database.
    """

    def __init__(self, catalog_name: str, database_name: str) -> None:
        built_in = GenericInMemoryCatalog(catalog_name, database_name)
        self._catalogs: dict[str, Catalog] = {catalog_name: built_in}
        self._descriptions: dict[str, tuple[dict[str, str], str | None]] = {}
        self._temporary: dict[ObjectIdentifier, CatalogBaseTable] = {}
        self._temporary_functions: dict[ObjectIdentifier, CatalogFunction] = {}
        self._system_functions: dict[str, CatalogFunction] = {}
        self._unnamed = 0
        self.current_catalog = catalog_name
        self.current_database = database_name

    # Catalogs and databases -------------------------------------------------------------------

    def register_catalog(
        self,
        name: str,
        catalog: Catalog,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> None:
        """Add a catalog.

        Args:
            name: Its name.
            catalog: The catalog.
            options: The options of the statement that created it.
            comment: The comment of that statement.

        Raises:
            CatalogException: The name is taken.
        """
        if name in self._catalogs:
            raise errors.CatalogException(f"Catalog {name} already exists")
        catalog.open()
        self._catalogs[name] = catalog
        self._descriptions[name] = (dict(options or {}), comment)

    def description(self, name: str) -> tuple[dict[str, str], str | None]:
        """Return the options and the comment of a catalog."""
        options, comment = self._descriptions.get(name, ({}, None))
        return dict(options), comment

    def drop_catalog(self, name: str, ignore_if_not_exists: bool) -> None:
        """Remove a catalog.

        Raises:
            CatalogException: The catalog does not exist, or is the current one.
        """
        if name not in self._catalogs and ignore_if_not_exists:
            return
        self.catalog(name)
        if name == self.current_catalog:
            raise errors.CatalogException(f"Catalog {name} is in use: USE another one first")
        self._descriptions.pop(name, None)
        self._catalogs.pop(name).close()

    def find_catalog(self, name: str) -> Catalog | None:
        """Return a catalog; None if the name does not exist."""
        return self._catalogs.get(name)

    def catalog(self, name: str) -> Catalog:
        """Return a catalog.

        Raises:
            CatalogException: The name does not exist.
        """
        found = self._catalogs.get(name)
        if found is None:
            raise errors.CatalogException(
                f"A catalog with name [{name}] does not exist: there are "
                f"{', '.join(self.list_catalogs())}"
            )
        return found

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return sorted(self._catalogs)

    def list_databases(self) -> list[str]:
        """Return the names of the databases of the current catalog."""
        return self.catalog(self.current_catalog).list_databases()

    def use_catalog(self, name: str) -> None:
        """Make a catalog the current one, and its default database unless it already was.

        Raises:
            CatalogException: The name does not exist.
        """
        found = self.catalog(name)
        if name != self.current_catalog:
            self.current_catalog = name
            self.current_database = found.get_default_database()

    def use_database(self, path: Sequence[str]) -> None:
        """Make a database the current one.

        Raises:
            CatalogException: The name does not exist.
        """
        catalog = path[0] if len(path) > 1 else self.current_catalog
        if not self.catalog(catalog).database_exists(path[-1]):
            raise errors.CatalogException(
                f"A database with name [{path[-1]}] does not exist in the catalog: [{catalog}]"
            )
        self.current_catalog = catalog
        self.current_database = path[-1]

    def database_path(self, path: Sequence[str]) -> tuple[str, str]:
        """Return the catalog and the name of the database for a name of one or two parts."""
        return (path[0], path[1]) if len(path) > 1 else (self.current_catalog, path[0])

    # Names ------------------------------------------------------------------------------------

    def identifier(
        self, path: Sequence[str], namespace: tuple[str, str] | None = None
    ) -> ObjectIdentifier:
        """Return the full name of an object for a name of one to three parts.

        Args:
            path: The parts.
            namespace: The catalog and database to which short names are relative; the
                current ones by default.

        Raises:
            ValidationException: The name has more parts.
        """
        if len(path) > 3:
            raise errors.ValidationException(
                f"'{'.'.join(path)}' has more than three parts: catalog.database.object"
            )
        outer = namespace or (self.current_catalog, self.current_database)
        missing = outer[: 3 - len(path)]
        return ObjectIdentifier(*missing, *path)

    def unnamed_path(self) -> str:
        """Generate the name of an unnamed table."""
        name = f"UnnamedTable${self._unnamed}"
        self._unnamed += 1
        return name

    # Tables -----------------------------------------------------------------------------------

    def find_table(self, identifier: ObjectIdentifier) -> CatalogBaseTable | None:
        """Return a table or view, temporary ones first; None if it does not exist."""
        temporary = self._temporary.get(identifier)
        if temporary is not None:
            return temporary
        catalog = self._catalogs.get(identifier.catalog_name)
        if catalog is None:
            return None
        # Without table_exists: an external catalog would look the table up twice.
        try:
            return catalog.get_table(identifier.to_object_path())
        except errors.TableNotExistException:
            return None

    def table(self, identifier: ObjectIdentifier, what: str = "Table") -> CatalogBaseTable:
        """Return a table or view.

        Raises:
            ValidationException: The name does not exist.
        """
        found = self.find_table(identifier)
        if found is None:
            raise errors.ValidationException(
                f"{what} with identifier '{identifier.as_summary_string()}' does not exist"
            )
        return found

    def is_temporary(self, identifier: ObjectIdentifier) -> bool:
        """Return whether the name refers to a temporary table or view."""
        return identifier in self._temporary

    def create_table(
        self,
        identifier: ObjectIdentifier,
        table: CatalogBaseTable,
        *,
        is_temporary: bool = False,
        ignore_if_exists: bool = False,
    ) -> bool:
        """Create a table or view; return whether it is new.

        Raises:
            ValidationException: The name is taken, or its database does not exist.
        """
        exists = (
            identifier in self._temporary if is_temporary else self._exists_in_catalog(identifier)
        )
        if exists:
            if ignore_if_exists:
                return False
            kind = "Temporary table" if is_temporary else "Table (or view)"
            raise errors.ValidationException(
                f"{kind} '{identifier.as_summary_string()}' already exists"
            )
        if is_temporary:
            self._temporary[identifier] = table
            return True
        catalog = self.catalog(identifier.catalog_name)
        try:
            catalog.create_table(identifier.to_object_path(), table, False)
        except errors.DatabaseNotExistException as error:
            raise errors.ValidationException(
                f"Could not create table {identifier.as_summary_string()}: {error}"
            ) from error
        return True

    def _exists_in_catalog(self, identifier: ObjectIdentifier) -> bool:
        catalog = self.catalog(identifier.catalog_name)
        return catalog.table_exists(identifier.to_object_path())

    def replace_table(self, identifier: ObjectIdentifier, table: CatalogBaseTable) -> None:
        """Replace an existing table or view."""
        if identifier in self._temporary:
            self._temporary[identifier] = table
            return
        catalog = self.catalog(identifier.catalog_name)
        catalog.alter_table(identifier.to_object_path(), table, False)

    def rename_table(self, identifier: ObjectIdentifier, name: str) -> None:
        """Rename a table or view.

        Raises:
            ValidationException: The new name is taken, or the table is temporary.
        """
        if identifier in self._temporary:
            raise errors.ValidationException(
                f"Temporary table '{identifier.as_summary_string()}' cannot be renamed"
            )
        catalog = self.catalog(identifier.catalog_name)
        try:
            catalog.rename_table(identifier.to_object_path(), name, False)
        except errors.TableAlreadyExistException as error:
            raise errors.ValidationException(str(error)) from error

    def drop_table(
        self,
        identifier: ObjectIdentifier,
        *,
        is_view: bool,
        is_temporary: bool = False,
        ignore_if_not_exists: bool = False,
    ) -> bool:
        """Drop a table or view; return whether it existed.

        Raises:
            ValidationException: The name does not exist, has another kind, or is hidden by a
                temporary object.
        """
        kind = "View" if is_view else "Table"
        shown = identifier.as_summary_string()
        if is_temporary:
            found = self._temporary.get(identifier)
        else:
            if identifier in self._temporary:
                raise errors.ValidationException(
                    f"Temporary {kind.lower()} with identifier '{shown}' exists. Drop it first "
                    f"before removing the permanent {kind.lower()}"
                )
            found = self.find_table(identifier)
        if found is None or found.is_view != is_view:
            if ignore_if_not_exists:
                return False
            what = f"Temporary {kind.lower()}" if is_temporary else kind
            raise errors.ValidationException(f"{what} with identifier '{shown}' does not exist")
        if is_temporary:
            del self._temporary[identifier]
        else:
            catalog = self.catalog(identifier.catalog_name)
            catalog.drop_table(identifier.to_object_path(), False)
        return True

    def list_tables(self, path: Sequence[str] = ()) -> list[str]:
        """Return the names of tables and views of a database, the current one by default."""
        catalog, database = self.current_catalog, self.current_database
        if path:
            catalog, database = self.database_path(path)
        names = set(self.catalog(catalog).list_tables(database))
        return sorted(names | set(self._temporary_in(catalog, database)))

    def list_views(self, path: Sequence[str] = ()) -> list[str]:
        """Return the names of views of a database, the current one by default."""
        catalog, database = self.current_catalog, self.current_database
        if path:
            catalog, database = self.database_path(path)
        names = self.list_tables(path)
        return [n for n in names if self.table(ObjectIdentifier(catalog, database, n)).is_view]

    def list_temporary(self, *, views: bool) -> list[str]:
        """Return the names of temporary tables and views, or of views, of the current database."""
        found = self._temporary_in(self.current_catalog, self.current_database)
        identifiers = ((name, self.identifier([name])) for name in found)
        return sorted(n for n, i in identifiers if not views or self._temporary[i].is_view)

    def _temporary_in(self, catalog: str, database: str) -> Iterable[str]:
        return [
            identifier.object_name
            for identifier in self._temporary
            if (identifier.catalog_name, identifier.database_name) == (catalog, database)
        ]

    # Functions --------------------------------------------------------------------------------

    def function_identifier(
        self, path: Sequence[str], namespace: tuple[str, str] | None = None
    ) -> ObjectIdentifier:
        """Return the full name of a function, in lower case."""
        found = self.identifier(path, namespace)
        return ObjectIdentifier(found.catalog_name, found.database_name, found.object_name.lower())

    def function_path(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """Return the complete name of a user's function; None if the name does not exist."""
        if self.catalog_function(path) is None:
            return None
        if len(path) == 1 and path[0].lower() in self._system_functions:
            return (path[0].lower(),)
        return tuple(self.function_identifier(path).to_list())

    def find_function(self, path: Sequence[str], namespace: tuple[str, str] | None = None) -> Any:
        """Return the wrapper of a user's function; None if the name does not exist."""
        found = self.catalog_function(path, namespace)
        return None if found is None else wrapper_of(found)

    def catalog_function(
        self, path: Sequence[str], namespace: tuple[str, str] | None = None
    ) -> CatalogFunction | None:
        """Return the entry of a user's function; None if the name does not exist."""
        if len(path) == 1:
            system = self._system_functions.get(path[0].lower())
            if system is not None:
                return system
        identifier = self.function_identifier(path, namespace)
        temporary = self._temporary_functions.get(identifier)
        if temporary is not None:
            return temporary
        catalog = self._catalogs.get(identifier.catalog_name)
        name = ObjectPath(identifier.database_name, identifier.object_name)
        if catalog is None or not catalog.function_exists(name):
            return None
        return catalog.get_function(name)

    def create_function(
        self,
        path: Sequence[str],
        function: CatalogFunction,
        *,
        is_temporary: bool = True,
        is_system: bool = False,
        ignore_if_exists: bool = False,
    ) -> None:
        """Register a function.

        Raises:
            ValidationException: The name is taken.
        """
        if is_system:
            name = path[0].lower()
            if name in self._system_functions and not ignore_if_exists:
                raise errors.ValidationException(
                    f"Could not register temporary system function: a function '{name}' does "
                    "already exist"
                )
            self._system_functions.setdefault(name, function)
            return
        identifier = self.function_identifier(path)
        if not is_temporary:
            catalog = self.catalog(identifier.catalog_name)
            name_path = identifier.to_object_path()
            if catalog.function_exists(name_path) and not ignore_if_exists:
                raise errors.ValidationException(
                    f"Function {identifier.as_summary_string()} already exists"
                )
            catalog.create_function(name_path, function, True)
            return
        if identifier in self._temporary_functions and not ignore_if_exists:
            raise errors.ValidationException(
                f"Could not register temporary catalog function: a function "
                f"'{identifier.as_summary_string()}' does already exist"
            )
        self._temporary_functions.setdefault(identifier, function)

    def drop_function(
        self,
        path: Sequence[str],
        *,
        is_temporary: bool = True,
        is_system: bool = False,
        ignore_if_not_exists: bool = False,
    ) -> bool:
        """Drop a function; return whether it existed.

        Raises:
            ValidationException: The name does not exist, and ``ignore_if_not_exists`` is False.
        """
        identifier = self.function_identifier(path)
        if is_system:
            found = self._system_functions.pop(path[0].lower(), None) is not None
        elif is_temporary:
            found = self._temporary_functions.pop(identifier, None) is not None
        else:
            catalog = self.catalog(identifier.catalog_name)
            name = identifier.to_object_path()
            found = catalog.function_exists(name)
            if found:
                catalog.drop_function(name, False)
        if not found and not ignore_if_not_exists:
            raise errors.ValidationException(f"Function {'.'.join(path)} does not exist")
        return found

    def list_functions(self) -> list[str]:
        """Return the names of the user's functions."""
        catalog = self.catalog(self.current_catalog)
        names = set(catalog.list_functions(self.current_database)) | set(self._system_functions)
        here = (self.current_catalog, self.current_database)
        names |= {
            identifier.object_name
            for identifier in self._temporary_functions
            if (identifier.catalog_name, identifier.database_name) == here
        }
        return sorted(names)


def wrapper_of(function: CatalogFunction) -> Any:
    """Return the wrapper of a function; import the function if only its name is stored.

    Raises:
        ValidationException: The function is not in Python, or cannot be found.
    """
    if function.function is not None:
        return function.function
    if function.language != "PYTHON":
        raise errors.ValidationException(
            f"The function {function.class_name} is in {function.language}: penstock runs "
            "functions in Python only; add LANGUAGE PYTHON"
        )
    from importlib import import_module

    from penstock.table.udf.wrappers import UserDefinedFunctionWrapper

    module, _, name = function.class_name.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.ValidationException(
            f"The Python function {function.class_name!r} cannot be imported: {error}"
        ) from error
    if not isinstance(found, UserDefinedFunctionWrapper):
        raise errors.ValidationException(
            f"The Python function {function.class_name!r} is {found!r}, which has no declared "
            "types: create it by udf, udtf, udaf or udtaf of penstock.table.udf.wrappers"
        )
    return found
