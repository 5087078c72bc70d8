"""Catalogs of databases and lakes: JdbcCatalog for PostgreSQL, IcebergCatalog, and HiveCatalog."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common.calls.jvm import requires_jvm
from penstock.table import exceptions as errors
from penstock.table import types
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.objects import CatalogBaseTable, CatalogDatabase
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import OptionSpec, read_options, text
from penstock.table.schema.schema import DeclaredColumn, Schema
from penstock.table.types.arrow_types import data_type_of_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.catalog.objects import CatalogFunction, ObjectPath

_SYSTEM_SCHEMAS: Final = ("pg_catalog", "information_schema", "pg_toast")


class ExternalCatalog(Catalog):
    """A catalog whose databases and tables are stored in an external system; it has no functions.

    Args:
        name: The name of the catalog.
        default_database: The initial database of a program.
    """

    kind: str

    def __init__(self, name: str, default_database: str) -> None:
        self.name = name
        self._default_database = default_database

    def get_default_database(self) -> str:
        """Return the name of the default database."""
        return self._default_database

    @abstractmethod
    def databases(self) -> Sequence[str]:
        """Return the names of the databases."""

    @abstractmethod
    def tables(self, database: str) -> Sequence[str]:
        """Return the names of the tables of a database."""

    @abstractmethod
    def table(self, database: str, name: str) -> CatalogBaseTable | None:
        """Return a table; None if it does not exist."""

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        return sorted(self.databases())

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database.

        Raises:
            DatabaseNotExistException: The name does not exist.
        """
        if database_name not in self.databases():
            raise errors.DatabaseNotExistException(
                f"Database {database_name} does not exist in catalog {self.name}"
            )
        return CatalogDatabase({}, None)

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of all tables of a database.

        Raises:
            DatabaseNotExistException: The name does not exist.
        """
        self.get_database(database_name)
        return sorted(self.tables(database_name))

    def list_views(self, database_name: str) -> list[str]:
        """Return an empty list: views are read as tables."""
        del database_name
        return []

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table.

        Raises:
            TableNotExistException: The name does not exist.
        """
        found = self.table(table_path.database_name, table_path.object_name)
        if found is None:
            raise errors.TableNotExistException(
                f"Table (or view) {table_path} does not exist in catalog {self.name}"
            )
        return found

    def list_functions(self, database_name: str) -> list[str]:
        """Return an empty list: the catalog has no functions."""
        del database_name
        return []

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        """Reject the call: the catalog has no functions.

        Raises:
            FunctionNotExistException: Always.
        """
        raise errors.FunctionNotExistException(
            f"Function {function_path} does not exist in catalog {self.name}"
        )

    def _refused(self, what: str) -> NoReturn:
        raise errors.CatalogException(
            f"Catalog {self.name} of the type {self.kind} cannot {what}: use a temporary table, or "
            "another catalog"
        )

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Reject the call."""
        del database, ignore_if_exists
        self._refused(f"create database {name}")

    def drop_database(self, name: str, ignore_if_not_exists: bool, cascade: bool = False) -> None:
        """Reject the call."""
        del ignore_if_not_exists, cascade
        self._refused(f"drop database {name}")

    def alter_database(
        self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool
    ) -> None:
        """Reject the call."""
        del new_database, ignore_if_not_exists
        self._refused(f"alter database {name}")

    def create_table(
        self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool
    ) -> None:
        """Reject the call."""
        del table, ignore_if_exists
        self._refused(f"create table {table_path}")

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool
    ) -> None:
        """Reject the call."""
        del new_table, ignore_if_not_exists
        self._refused(f"alter table {table_path}")

    def rename_table(
        self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool
    ) -> None:
        """Reject the call."""
        del new_table_name, ignore_if_not_exists
        self._refused(f"rename table {table_path}")

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Reject the call."""
        del ignore_if_not_exists
        self._refused(f"drop table {table_path}")

    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        """Reject the call."""
        del function, ignore_if_exists
        self._refused(f"create function {function_path}")

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Reject the call."""
        del new_function, ignore_if_not_exists
        self._refused(f"alter function {function_path}")

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Reject the call."""
        del ignore_if_not_exists
        self._refused(f"drop function {function_path}")


_COLUMNS: Final = (
    "SELECT column_name, udt_name, is_nullable, character_maximum_length, numeric_precision, "
    "numeric_scale, datetime_precision FROM information_schema.columns "
    "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_KEY: Final = (
    "SELECT k.constraint_name, k.column_name FROM information_schema.table_constraints t "
    "JOIN information_schema.key_column_usage k ON k.constraint_name = t.constraint_name "
    "AND k.table_schema = t.table_schema AND k.table_name = t.table_name "
    "WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_schema = %s AND t.table_name = %s "
    "ORDER BY k.ordinal_position"
)

_POSTGRES_TYPES: Final[dict[str, types.DataType]] = {
    "bool": types.DataTypes.BOOLEAN(),
    "int2": types.DataTypes.SMALLINT(),
    "int4": types.DataTypes.INT(),
    "int8": types.DataTypes.BIGINT(),
    "float4": types.DataTypes.FLOAT(),
    "float8": types.DataTypes.DOUBLE(),
    "bytea": types.DataTypes.BYTES(),
    "date": types.DataTypes.DATE(),
}


class JdbcCatalog(ExternalCatalog):
    """The tables of the databases of a PostgreSQL server, as tables of the connector ``jdbc``.

    Tables in other schemas than ``public`` have names with the schema: `` `sales.orders` ``.

    Args:
        catalog_name: The name of the catalog.
        default_database: The initial database of a program.
        username: The user.
        pwd: The password.
        base_url: The server: ``jdbc:postgresql://host:5432``.

    Raises:
        ValidationException: The server is not PostgreSQL.
    """

    kind = "jdbc"

    def __init__(
        self, catalog_name: str, default_database: str, username: str, pwd: str, base_url: str
    ) -> None:
        super().__init__(catalog_name, default_database)
        if not base_url.startswith("jdbc:postgresql:"):
            raise ValidationException(
                f"Catalog {catalog_name}: a catalog of the type jdbc needs PostgreSQL, whose "
                f"'base-url' begins with jdbc:postgresql:, got '{base_url}'"
            )
        server, _, settings = base_url.partition("?")
        self._server, self._settings = server.removesuffix("/"), f"?{settings}" if settings else ""
        self._user = {"username": username, "password": pwd}

    def url(self, database: str) -> str:
        """Return the JDBC URL of a database."""
        return f"{self._server}/{database}{self._settings}"

    def databases(self) -> Sequence[str]:
        """Return the databases except templates."""
        query = "SELECT datname FROM pg_database WHERE NOT datistemplate"
        return [name for (name,) in self._asked(self._default_database, query)]

    def tables(self, database: str) -> Sequence[str]:
        """Return the tables and views, with their schema unless it is public."""
        query = "SELECT table_schema, table_name FROM information_schema.tables"
        return [
            name if schema == "public" else f"{schema}.{name}"
            for schema, name in self._asked(database, query)
            if schema not in _SYSTEM_SCHEMAS
        ]

    def table(self, database: str, name: str) -> CatalogBaseTable | None:
        """Return a table of the connector jdbc; None if it does not exist."""
        if database not in self.databases():
            return None
        schema, _, own = name.rpartition(".")
        place = (schema or "public", own)
        columns = self._asked(database, _COLUMNS, place)
        if not columns:
            return None
        declared = [
            DeclaredColumn(column, _postgres_type(own, column, *rest)) for column, *rest in columns
        ]
        key = self._asked(database, _KEY, place)
        constraint = (key[0][0], tuple(column for _, column in key)) if key else None
        options = {
            "connector": "jdbc",
            "url": self.url(database),
            "table-name": f"{schema}.{own}" if schema else own,
            **self._user,
        }
        return CatalogBaseTable(Schema(declared, (), constraint), options)

    def _asked(self, database: str, query: str, parameters: Sequence[str] = ()) -> list[Any]:
        """Return the rows of a query.

        Raises:
            CatalogException: The query fails.
        """
        from penstock.connectors.jdbc.connection import JdbcConnectionOptions

        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        builder.with_url(self.url(database))
        builder.with_user_name(self._user["username"]).with_password(self._user["password"])
        options = builder.build()
        try:
            connection = options.connect()
            try:
                cursor = connection.cursor()
                cursor.execute(query, parameters)
                rows: list[Any] = cursor.fetchall()
            finally:
                connection.close()
        except Exception as error:
            raise errors.CatalogException(
                f"Catalog {self.name}: {options.shown} does not answer: "
                f"{type(error).__name__}: {error}"
            ) from error
        return rows


def _postgres_type(
    table: str,
    column: str,
    name: str,
    is_nullable: str,
    length: int | None,
    precision: int | None,
    scale: int | None,
    time_precision: int | None,
) -> types.DataType:
    """Return the type of a PostgreSQL column.

    Raises:
        ValidationException: SQL has no such type.
    """
    found = _scalar_type(name.removeprefix("_"), length, precision, scale, time_precision)
    if found is None:
        raise ValidationException(
            f"Column '{column}' of table {table} has the type {name} of PostgreSQL, which SQL "
            "does not have here: declare a table of the connector jdbc without the column"
        )
    if name.startswith("_"):
        found = types.DataTypes.ARRAY(found)
    return found if is_nullable == "YES" else found.not_null()


def _scalar_type(
    name: str,
    length: int | None,
    precision: int | None,
    scale: int | None,
    time_precision: int | None,
) -> types.DataType | None:
    digits = 6 if time_precision is None else time_precision
    match name:
        case "varchar" if length is not None:
            return types.DataTypes.VARCHAR(length)
        case "bpchar":
            return types.DataTypes.CHAR(length or 1)
        case "text" | "varchar" | "uuid":
            return types.DataTypes.STRING()
        case "numeric" if precision is not None:
            return types.DataTypes.DECIMAL(precision, scale or 0)
        case "numeric":
            return types.DataTypes.DECIMAL(38, 18)
        case "time":
            return types.DataTypes.TIME(digits)
        case "timestamp":
            return types.DataTypes.TIMESTAMP(digits)
        case "timestamptz":
            return types.DataTypes.TIMESTAMP_LTZ(digits)
    return _POSTGRES_TYPES.get(name)


_ICEBERG_KINDS: Final = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
}
"""Java classes in options of Iceberg catalogs, and pyiceberg's catalog types."""


class IcebergCatalog(ExternalCatalog):
    """The tables of an Apache Iceberg catalog.

    Args:
        name: The name of the catalog.
        options: The options of CREATE CATALOG, except ``type``.

    Raises:
        ValidationException: The catalog cannot be opened.
    """

    kind = "iceberg"

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, options.get("default-database", "default"))
        self._options = {k: v for k, v in options.items() if k != "default-database"}
        implementation = self._options.pop("catalog-impl", None)
        if implementation is not None:
            kind = _ICEBERG_KINDS.get(implementation)
            if kind is None:
                raise ValidationException(
                    f"Catalog {name}: 'catalog-impl' names a class of Java that penstock does not "
                    f"know: {implementation}; expected one of {', '.join(_ICEBERG_KINDS)}"
                )
            self._options["catalog-type"] = kind
        self._loaded: Any = None

    def open(self) -> None:
        """Open the catalog.

        Raises:
            CatalogException: The catalog cannot be opened.
        """
        from penstock.connectors.iceberg.library import iceberg_library

        properties = dict(self._options)
        kind = properties.pop("catalog-type", None)
        if kind is not None:
            properties["type"] = kind
        library = iceberg_library("CREATE CATALOG")
        try:
            self._loaded = library.load_catalog(self.name, **properties)
        except Exception as error:
            raise errors.CatalogException(
                f"Catalog {self.name} of Iceberg cannot be opened: {type(error).__name__}: {error}"
            ) from error

    def databases(self) -> Sequence[str]:
        """Return the namespaces."""
        return [".".join(parts) for parts in self._loaded.list_namespaces()]

    def tables(self, database: str) -> Sequence[str]:
        """Return the tables of a namespace."""
        return [parts[-1] for parts in self._loaded.list_tables(database)]

    def table(self, database: str, name: str) -> CatalogBaseTable | None:
        """Return a table of the connector iceberg; None if it does not exist."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        if not self._loaded.table_exists(f"{database}.{name}"):
            return None
        found = self._loaded.load_table(f"{database}.{name}")
        columns = [
            DeclaredColumn(field.name, data_type_of_arrow(field.type, field.nullable))
            for field in schema_to_pyarrow(found.schema(), include_field_ids=False)
        ]
        options = {
            "connector": "iceberg",
            "catalog-name": self.name,
            "catalog-database": database,
            "catalog-table": name,
            **self._options,
        }
        return CatalogBaseTable(Schema(columns), options)

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Create a namespace.

        Raises:
            DatabaseAlreadyExistException: The namespace exists.
        """
        if name in self.databases():
            if not ignore_if_exists:
                raise errors.DatabaseAlreadyExistException(
                    f"Database {name} already exists in catalog {self.name}"
                )
            return
        self._loaded.create_namespace(name, dict(database.properties))

    def create_table(
        self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool
    ) -> None:
        """Create a table of the physical columns, without partitions.

        Raises:
            TableAlreadyExistException: The table exists.
            CatalogException: It is a view, has partitions, or columns that are not physical.
        """
        from penstock.table.connectors.row_sources import stored_schema

        if self.table_exists(table_path):
            if not ignore_if_exists:
                raise errors.TableAlreadyExistException(
                    f"Table (or view) {table_path} already exists in catalog {self.name}"
                )
            return
        if table.is_view or table.partition_keys:
            self._refused(f"create {table_path}, which is a view or has partitions")
        fields = []
        for column in table.schema.columns:
            if not isinstance(column.data_type, types.DataType) or not column.is_physical:
                self._refused(f"keep column {column.name}, which is computed or metadata")
            fields.append(types.RowField(column.name, column.data_type))
        identifier = f"{table_path.database_name}.{table_path.object_name}"
        self._loaded.create_table(identifier, stored_schema(types.RowType(fields)))

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drop a table; its files remain."""
        if ignore_if_not_exists and not self.table_exists(table_path):
            return
        self.get_table(table_path)
        self._loaded.drop_table(f"{table_path.database_name}.{table_path.object_name}")


class HiveCatalog:
    """A catalog in Hive's metastore, which requires a JVM."""

    def __init__(
        self,
        catalog_name: str,
        default_database: str | None = None,
        hive_conf_dir: str | None = None,
        hadoop_conf_dir: str | None = None,
        hive_version: str | None = None,
    ) -> None:
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        del default_database, hive_conf_dir, hadoop_conf_dir, hive_version
        requires_jvm(
            f"HiveCatalog({catalog_name!r})",
            "use a catalog in memory, of JDBC, or of Iceberg with 'catalog-type' = 'hive'",
        )


_JDBC_OPTIONS: Final = {
    "default-database": OptionSpec(text, is_required=True),
    "username": OptionSpec(text, is_required=True),
    "password": OptionSpec(text, is_required=True),
    "base-url": OptionSpec(text, is_required=True),
}

CATALOG_TYPES: Final = ("generic_in_memory", "iceberg", "jdbc")


def external_catalog(name: str, kind: str | None, options: Mapping[str, str]) -> ExternalCatalog:
    """Return a catalog of a type.

    Args:
        name: The name of the catalog.
        kind: The type of the catalog.
        options: The options of CREATE CATALOG, except the type.

    Raises:
        ValidationException: The type is unknown, or an option is invalid.
        CatalogException: The catalog cannot be opened.
    """
    if kind == "jdbc":
        values = read_options(f"catalog {name}", options, _JDBC_OPTIONS)
        return JdbcCatalog(
            name,
            values["default-database"],
            values["username"],
            values["password"],
            values["base-url"],
        )
    if kind == "iceberg":
        return IcebergCatalog(name, options)
    raise ValidationException(
        f"Catalog {name} has the type {kind!r}: penstock has the types {', '.join(CATALOG_TYPES)}"
    )
