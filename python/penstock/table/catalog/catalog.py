"""Catalog, GenericInMemoryCatalog, and the objects in catalogs, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from penstock.table import exceptions as errors
from penstock.table.catalog.objects import (
    CatalogBaseTable,
    CatalogDatabase,
    CatalogFunction,
    CatalogPartition,
    CatalogPartitionSpec,
    ObjectPath,
)
from penstock.table.catalog.statistics import (
    StoredStatistics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


T = TypeVar("T")


class Catalog(ABC):
    """A collection of databases with tables, views and functions."""

    def open(self) -> None:  # noqa: B027 - most catalogs need nothing
        """Open the catalog; called when it is registered."""

    def close(self) -> None:  # noqa: B027 - most catalogs need nothing
        """Close the catalog; called when it is dropped."""

    @abstractmethod
    def get_default_database(self) -> str:
        """Return the database that USE CATALOG selects."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Return the names of all databases."""

    @abstractmethod
    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database.

        Raises:
            DatabaseNotExistException: No database has the name.
        """

    @abstractmethod
    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Create a database.

        Raises:
            DatabaseAlreadyExistException: The name is taken, and ``ignore_if_exists`` is False.
        """

    @abstractmethod
    def drop_database(self, name: str, ignore_if_not_exists: bool, cascade: bool = False) -> None:
        """Drop a database.

        Raises:
            DatabaseNotExistException: No database has the name, and ``ignore_if_not_exists`` is
                False.
            DatabaseNotEmptyException: It has tables or functions, and ``cascade`` is False.
        """

    @abstractmethod
    def alter_database(
        self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool
    ) -> None:
        """Replace a database's options and comment."""

    @abstractmethod
    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of all tables and views of a database.

        Raises:
            DatabaseNotExistException: No database has the name.
        """

    def list_views(self, database_name: str) -> list[str]:
        """Return the names of all views of a database.

        Raises:
            DatabaseNotExistException: No database has the name.
        """
        names = self.list_tables(database_name)
        return [n for n in names if self.get_table(ObjectPath(database_name, n)).is_view]

    @abstractmethod
    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table or view.

        Raises:
            TableNotExistException: The name does not exist.
        """

    @abstractmethod
    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drop a table or view."""

    @abstractmethod
    def rename_table(
        self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool
    ) -> None:
        """Rename a table or view."""

    @abstractmethod
    def create_table(
        self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool
    ) -> None:
        """Create a table or view."""

    @abstractmethod
    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool
    ) -> None:
        """Replace a table or view."""

    @abstractmethod
    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of all functions of a database."""

    @abstractmethod
    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        """Return a function.

        Raises:
            FunctionNotExistException: The name does not exist.
        """

    @abstractmethod
    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        """Create a function."""

    @abstractmethod
    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Replace a function."""

    @abstractmethod
    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drop a function."""

    def list_models(self, database_name: str) -> list[str]:
        """Return no names: catalogs have no models.

        Raises:
            DatabaseNotExistException: No database has the name.
        """
        self.get_database(database_name)
        return []

    def model_exists(self, model_path: ObjectPath) -> bool:
        """Return False: catalogs have no models."""
        del model_path
        return False

    def list_materialized_tables(self, database_name: str) -> list[str]:
        """Return no names: catalogs have no materialized tables; see `list_models`."""
        return self.list_models(database_name)

    def list_procedures(self, database_name: str) -> list[str]:
        """Return no names: catalogs have no procedures; see `list_models`."""
        return self.list_models(database_name)

    def database_exists(self, database_name: str) -> bool:
        """Return whether a database with the name exists."""
        return database_name in self.list_databases()

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Return whether a table or view with the name exists."""
        try:
            self.get_table(table_path)
        except errors.TableNotExistException:
            return False
        return True

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Return whether a function with the name exists."""
        try:
            self.get_function(function_path)
        except errors.FunctionNotExistException:
            return False
        return True


@dataclass
class _Database:
    description: CatalogDatabase
    tables: dict[str, CatalogBaseTable] = field(default_factory=dict)
    functions: dict[str, CatalogFunction] = field(default_factory=dict)
    partitions: dict[str, dict[CatalogPartitionSpec, CatalogPartition]] = field(
        default_factory=dict
    )


class GenericInMemoryCatalog(Catalog, StoredStatistics):
    """A catalog that exists only while the program runs.

    Args:
        name: The name of the catalog.
        default_database: The name of its first database.
    """

    def __init__(self, name: str, default_database: str | None = None) -> None:
        super().__init__()
        self.name = name
        self._default_database = default_database or "default"
        self._databases = {self._default_database: _Database(CatalogDatabase())}

    def get_default_database(self) -> str:
        """Return the first database."""
        return self._default_database

    # Databases --------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        return sorted(self._databases)

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database."""
        return self._database(database_name).description

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Create a database."""
        if name not in self._databases:
            self._databases[name] = _Database(database)
        elif not ignore_if_exists:
            raise errors.DatabaseAlreadyExistException(
                f"Database {name} already exists in catalog {self.name}"
            )

    def drop_database(self, name: str, ignore_if_not_exists: bool, cascade: bool = False) -> None:
        """Drop a database."""
        if name not in self._databases and ignore_if_not_exists:
            return
        database = self._database(name)
        if (database.tables or database.functions) and not cascade:
            raise errors.DatabaseNotEmptyException(
                f"Database {name} in catalog {self.name} is not empty: drop it with CASCADE"
            )
        del self._databases[name]

    def alter_database(
        self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool
    ) -> None:
        """Replace a database's options and comment."""
        if name in self._databases or not ignore_if_not_exists:
            self._database(name).description = new_database

    def _database(self, name: str) -> _Database:
        database = self._databases.get(name)
        if database is None:
            raise errors.DatabaseNotExistException(
                f"Database {name} does not exist in catalog {self.name}, which has "
                f"{', '.join(self.list_databases())}"
            )
        return database

    # Tables -----------------------------------------------------------------------------------

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of all tables and views of a database."""
        return sorted(self._database(database_name).tables)

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table or view."""
        database = self._databases.get(table_path.database_name)
        table = None if database is None else database.tables.get(table_path.object_name)
        if table is None:
            raise errors.TableNotExistException(
                f"Table (or view) {table_path} does not exist in catalog {self.name}"
            )
        return table

    def create_table(
        self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool
    ) -> None:
        """Create a table or view."""
        tables = self._database(table_path.database_name).tables
        if table_path.object_name not in tables:
            tables[table_path.object_name] = table
        elif not ignore_if_exists:
            raise errors.TableAlreadyExistException(
                f"Table (or view) {table_path} already exists in catalog {self.name}"
            )

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool
    ) -> None:
        """Replace a table or view."""
        if self._is_missing(table_path, ignore_if_not_exists):
            return
        self._database(table_path.database_name).tables[table_path.object_name] = new_table

    def rename_table(
        self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool
    ) -> None:
        """Rename a table or view."""
        if self._is_missing(table_path, ignore_if_not_exists):
            return
        table = self.get_table(table_path)
        self.create_table(ObjectPath(table_path.database_name, new_table_name), table, False)
        del self._database(table_path.database_name).tables[table_path.object_name]
        self._forget_statistics(table_path)

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drop a table or view."""
        if not self._is_missing(table_path, ignore_if_not_exists):
            database = self._database(table_path.database_name)
            del database.tables[table_path.object_name]
            database.partitions.pop(table_path.object_name, None)
            self._forget_statistics(table_path)

    def _is_missing(self, table_path: ObjectPath, is_ignored: bool) -> bool:
        if self.table_exists(table_path):
            return False
        if not is_ignored:
            self.get_table(table_path)
        return True

    # Functions --------------------------------------------------------------------------------

    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of all functions of a database, in lower case."""
        return sorted(self._database(database_name).functions)

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        """Return a function; the case of the name does not matter."""
        database = self._databases.get(function_path.database_name)
        name = function_path.object_name.lower()
        function = None if database is None else database.functions.get(name)
        if function is None:
            raise errors.FunctionNotExistException(
                f"Function {function_path} does not exist in catalog {self.name}"
            )
        return function

    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        """Create a function."""
        functions = self._database(function_path.database_name).functions
        name = function_path.object_name.lower()
        if name not in functions:
            functions[name] = function
        elif not ignore_if_exists:
            raise errors.FunctionAlreadyExistException(
                f"Function {function_path} already exists in catalog {self.name}"
            )

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Replace a function."""
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        functions = self._database(function_path.database_name).functions
        functions[function_path.object_name.lower()] = new_function

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drop a function."""
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        functions = self._database(function_path.database_name).functions
        del functions[function_path.object_name.lower()]

    # Partitions -------------------------------------------------------------------------------

    def list_partitions(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec | None = None
    ) -> list[CatalogPartitionSpec]:
        """Return the partitions of a table; all, or those with the given values."""
        wanted: Mapping[str, str] = {}
        if partition_spec is not None:
            wanted = partition_spec.partition_spec
        return [
            spec
            for spec in self._partitions(table_path)
            if wanted.items() <= spec.partition_spec.items()
        ]

    def get_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogPartition:
        """Return a partition.

        Raises:
            PartitionNotExistException: The table has no such partition.
        """
        partition = self._partitions(table_path).get(partition_spec)
        if partition is None:
            raise errors.PartitionNotExistException(
                f"Table {table_path} has no partition {partition_spec.get_partition_spec()}"
            )
        return partition

    def partition_exists(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> bool:
        """Return whether the table has the partition."""
        return partition_spec in self._partitions(table_path)

    def create_partition(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        partition: CatalogPartition,
        ignore_if_exists: bool,
    ) -> None:
        """Store a partition.

        Raises:
            PartitionAlreadyExistsException: It exists, and ``ignore_if_exists`` is False.
            PartitionSpecInvalidException: The table is partitioned by other columns.
        """
        partitions = self._partitions(table_path)
        keys = self.get_table(table_path).partition_keys
        if set(partition_spec.partition_spec) != set(keys):
            raise errors.PartitionSpecInvalidException(
                f"Table {table_path} is partitioned by {', '.join(keys)}, not by "
                f"{', '.join(partition_spec.partition_spec)}"
            )
        if partition_spec not in partitions:
            partitions[partition_spec] = partition
        elif not ignore_if_exists:
            raise errors.PartitionAlreadyExistsException(
                f"Table {table_path} has the partition {partition_spec.get_partition_spec()}"
            )

    def alter_partition(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        new_partition: CatalogPartition,
        ignore_if_not_exists: bool,
    ) -> None:
        """Replace a partition.

        Raises:
            PartitionNotExistException: It is missing, and ``ignore_if_not_exists`` is False.
        """
        partitions = self._partitions(table_path)
        if partition_spec in partitions:
            partitions[partition_spec] = new_partition
        elif not ignore_if_not_exists:
            self.get_partition(table_path, partition_spec)

    def drop_partition(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        ignore_if_not_exists: bool,
    ) -> None:
        """Remove a partition."""
        if not ignore_if_not_exists:
            self.get_partition(table_path, partition_spec)
        self._partitions(table_path).pop(partition_spec, None)
        self._forget_statistics(table_path, partition_spec)

    def _partitions(self, table_path: ObjectPath) -> dict[CatalogPartitionSpec, CatalogPartition]:
        if not self.get_table(table_path).partition_keys:
            raise errors.TableNotPartitionedException(
                f"Table {table_path} in catalog {self.name} is not partitioned"
            )
        database = self._database(table_path.database_name)
        return database.partitions.setdefault(table_path.object_name, {})
