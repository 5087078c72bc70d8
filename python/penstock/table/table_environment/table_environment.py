"""TableEnvironment: the entry point of table programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.configuration import Configuration
from penstock.datastream.process_configuration import process_configuration
from penstock.table.catalog.manager import CatalogManager
from penstock.table.catalog.objects import CatalogFunction, ObjectIdentifier
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.exceptions import ValidationException
from penstock.table.module import ModuleEntry
from penstock.table.planning.planner import Planner, schema_of_node
from penstock.table.table.table import Table
from penstock.table.table_config import TableConfig
from penstock.table.table_environment.plan_methods import PlanMethods
from penstock.table.table_environment.table_objects import (
    described_table,
    parsed_path,
    view_of,
    wrapped_function,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from penstock.table.catalog.catalog import Catalog
    from penstock.table.catalog.objects import CatalogDescriptor
    from penstock.table.module import Module
    from penstock.table.plan.binder import Binder
    from penstock.table.plan.expressions import Expression as PlanExpression
    from penstock.table.plan.nodes import Node, Sink
    from penstock.table.plan.scopes import Scope
    from penstock.table.planning.job import TableJobs
    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.statement_set import StatementSet
    from penstock.table.statements.execution import StatementExecution
    from penstock.table.table_context import PlannedTable
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result.table_result import TableResult
    from penstock.table.types import DataType, RowType


def __getattr__(name: str) -> Any:
    """Return StreamTableEnvironment, which PyFlink's module of the same name also exports."""
    if name == "StreamTableEnvironment":
        from penstock.table.table_environment import stream_table_environment

        return stream_table_environment.StreamTableEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class TableEnvironment(PlanMethods, MissingMethods):
    """Catalogs, options and jobs of a program with tables; see `TableEnvironment.create`.

    Args:
        settings: The mode and the built-in catalog.
        root: The configuration of the underlying stream environment.
        catalogs: The catalogs; by default only the built-in one.
    """

    def __init__(
        self,
        settings: EnvironmentSettings,
        root: Configuration,
        catalogs: CatalogManager | None = None,
    ) -> None:
        from penstock.table.planning.job import TableJobs
        from penstock.table.statements.execution import StatementExecution

        self._settings = settings
        self._config = TableConfig(root)
        self.catalogs = catalogs or CatalogManager(settings.catalog_name, settings.database_name)
        self.planner = Planner(self.catalogs, self._config, settings.streaming)
        self.jobs: TableJobs = TableJobs(root, self._config, self.planner)
        self.statements: StatementExecution = StatementExecution(self)
        #: Insertions that were not started, as keys, for `execute` of PyFlink 1.
        self.pipelines: dict[TablePipeline, None] = {}

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Return an environment.

        Args:
            environment_settings: The settings, or options that name the mode.
        """
        settings = environment_settings
        if isinstance(settings, Configuration):
            settings = EnvironmentSettings.new_instance().with_configuration(settings).build()
        root = process_configuration()
        made = TableEnvironment(settings, root)
        made._config.add_configuration(settings.configuration)
        return made

    # Catalogs and modules ---------------------------------------------------------------------

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """Create a catalog in memory from a descriptor whose type is ``generic_in_memory``."""
        options = catalog_descriptor.configuration.to_dict()
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self.execute_sql(f"CREATE CATALOG `{catalog_name}` WITH ({shown})")

    def register_catalog(self, catalog_name: str, catalog: Catalog) -> None:
        """Add a catalog."""
        self.catalogs.register_catalog(catalog_name, catalog)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """Return a catalog; None if the name does not exist."""
        return self.catalogs.find_catalog(catalog_name)

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self.catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Make a database of the current catalog the current one."""
        self.catalogs.use_database([database_name])

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self.catalogs.current_catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self.catalogs.current_database

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return self.catalogs.list_catalogs()

    def list_databases(self) -> list[str]:
        """Return the names of the databases of the current catalog."""
        return self.catalogs.list_databases()

    def load_module(self, module_name: str, module: Module) -> None:
        """Reject the call: penstock only has the module ``core``.

        Raises:
            ValidationException: Always.
        """
        raise ValidationException(f"Module {module_name!r} ({module!r}) cannot be loaded")

    def unload_module(self, module_name: str) -> None:
        """Reject the call: the module ``core`` cannot be unloaded.

        Raises:
            ValidationException: Always.
        """
        raise ValidationException(f"Module {module_name!r} cannot be unloaded")

    def use_modules(self, *module_names: str) -> None:
        """Accept the module ``core``, the only one.

        Raises:
            ValidationException: Another module is named.
        """
        if module_names != ("core",):
            raise ValidationException(f"No module with name {module_names[0]!r} exists")

    def list_modules(self) -> list[str]:
        """Return the names of the modules in use."""
        return ["core"]

    def list_full_modules(self) -> list[ModuleEntry]:
        """Return all loaded modules."""
        return [ModuleEntry("core", True)]

    # Functions --------------------------------------------------------------------------------

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function for all catalogs and databases."""
        made = CatalogFunction(name, "PYTHON", wrapped_function(function))
        self.catalogs.create_function([name], made, is_system=True)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Register a function in a database, until the program ends."""
        made = CatalogFunction(path, "PYTHON", wrapped_function(function))
        self.catalogs.create_function(parsed_path(path), made)

    def register_function(self, name: str, function: Any) -> None:
        """Register a function, as PyFlink 1 did; see `create_temporary_system_function`."""
        self.create_temporary_system_function(name, function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a function; return whether it existed."""
        return self.catalogs.drop_function([name], is_system=True, ignore_if_not_exists=True)

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a temporary function of a database; return whether it existed."""
        return self.catalogs.drop_function(parsed_path(path), ignore_if_not_exists=True)

    def drop_function(self, path: str) -> bool:
        """Drop a permanent function of a database; return whether it existed."""
        return self.catalogs.drop_function(
            parsed_path(path), is_temporary=False, ignore_if_not_exists=True
        )

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the program's functions."""
        return self.catalogs.list_functions()

    def list_functions(self) -> list[str]:
        """Return the names of all functions, in the case in which Flink lists them."""
        from penstock.table.functions.listed_names import listed_names

        return sorted(listed_names() | set(self.catalogs.list_functions()))

    # Tables -----------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """Return a table or view.

        Raises:
            ValidationException: The name does not exist.
        """
        node = self.planner.described(parsed_path(path))
        if node is None:
            raise ValidationException(f"Table {path} was not found")
        made = Table(node, self)
        made._path = path
        made._query = f"SELECT * FROM {path}"
        return made

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return the table of a descriptor, without registering it."""
        identifier = self.catalogs.identifier([self.catalogs.unnamed_path()])
        return Table(self.planner.scan(identifier, described_table(descriptor)), self)

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,
        *,
        ignore_if_exists: bool = False,
    ) -> None:
        """Create a table that exists until the program ends.

        Args:
            path: The name.
            descriptor: The columns and options.
            ignoreIfExists: Whether an existing name is accepted.
            ignore_if_exists: The same, under the name that other methods have.

        Raises:
            ValidationException: The name is taken, or the schema is invalid.
        """
        is_ignored = bool(ignoreIfExists) or ignore_if_exists
        self._create_table(path, descriptor, is_ignored, is_temporary=True)

    def create_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,
        *,
        ignore_if_exists: bool = False,
    ) -> bool:
        """Create a table in a catalog; return whether it is new; see `create_temporary_table`.

        Raises:
            ValidationException: The name is taken, or the schema is invalid.
        """
        is_ignored = bool(ignoreIfExists) or ignore_if_exists
        return self._create_table(path, descriptor, is_ignored, is_temporary=False)

    def _create_table(
        self, path: str, descriptor: TableDescriptor, ignore: bool, *, is_temporary: bool
    ) -> bool:
        table = described_table(descriptor)
        self.planner.resolved(table)
        return self.catalogs.create_table(
            self.catalogs.identifier(parsed_path(path)),
            table,
            is_temporary=is_temporary,
            ignore_if_exists=ignore,
        )

    def create_temporary_view(
        self,
        view_path: str,
        table_or_data_stream: Any,
        *fields_or_schema: Any,
        ignore_if_exists: bool = False,
    ) -> None:
        """Register a table under a name, so that SQL can read it.

        Raises:
            ValidationException: The name is taken.
        """
        if not isinstance(table_or_data_stream, Table) or fields_or_schema:
            raise TypeError(
                f"create_temporary_view takes a Table here, got {table_or_data_stream!r}: streams "
                "need a StreamTableEnvironment"
            )
        self._create_view(view_path, table_or_data_stream, True, ignore_if_exists)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Register a table in a catalog; return whether the name is new.

        Raises:
            ValidationException: The name is taken.
        """
        return self._create_view(view_path, table, False, ignore_if_exists)

    def _create_view(self, path: str, table: Table, is_temporary: bool, ignore: bool) -> bool:
        return self.catalogs.create_table(
            self.catalogs.identifier(parsed_path(path)),
            view_of(table),
            is_temporary=is_temporary,
            ignore_if_exists=ignore,
        )

    def register_unnamed(self, table: PlannedTable) -> str:
        """Register a table under a generated name, and return the name (beyond PyFlink)."""
        path = self.catalogs.unnamed_path()
        identifier = self.catalogs.identifier([path])
        self.catalogs.create_table(identifier, view_of(table), is_temporary=True)
        return path

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; return whether it existed."""
        return self._drop(table_path, is_view=False, is_temporary=True)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drop a table of a catalog; return whether it existed.

        Raises:
            ValidationException: The table does not exist, and ``ignore_if_not_exists`` is False.
        """
        return self._drop(
            table_path, is_view=False, is_temporary=False, ignore=bool(ignore_if_not_exists)
        )

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; return whether it existed."""
        return self._drop(view_path, is_view=True, is_temporary=True)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drop a view of a catalog; return whether it existed.

        Raises:
            ValidationException: The view does not exist, and ``ignore_if_not_exists`` is False.
        """
        return self._drop(
            view_path, is_view=True, is_temporary=False, ignore=bool(ignore_if_not_exists)
        )

    def _drop(self, path: str, *, is_view: bool, is_temporary: bool, ignore: bool = True) -> bool:
        return self.catalogs.drop_table(
            self.catalogs.identifier(parsed_path(path)),
            is_view=is_view,
            is_temporary=is_temporary,
            ignore_if_not_exists=ignore,
        )

    def list_tables(self) -> list[str]:
        """Return the names of the tables and views of the current database."""
        return self.catalogs.list_tables()

    def list_views(self) -> list[str]:
        """Return the names of the views of the current database."""
        return self.catalogs.list_views()

    def list_temporary_tables(self) -> list[str]:
        """Return the names of the temporary tables and views of the current database."""
        return self.catalogs.list_temporary(views=False)

    def list_models(self) -> list[str]:
        """Return no names: there are no models."""
        return []

    def list_temporary_models(self) -> list[str]:
        """Return no names: there are no models."""
        return []

    def list_materialized_tables(self) -> list[str]:
        """Return no names: there are no materialized tables."""
        return []

    def list_temporary_views(self) -> list[str]:
        """Return the names of the temporary views of the current database."""
        return self.catalogs.list_temporary(views=True)

    # Rows of the program ----------------------------------------------------------------------

    def from_elements(
        self,
        elements: Iterable[Any],
        schema: DataType | Sequence[str] | None = None,
        verify_schema: bool = True,
    ) -> Table:
        """Return a table of the program's own rows.

        Args:
            elements: The rows: tuples, lists, Rows, dictionaries, objects, or expressions.
            schema: The type of the rows, or the names of the columns; types that are not given are
                inferred from the values.
            verify_schema: Whether values are checked against a given type.

        Raises:
            TypeError: A value has another type, or SQL has no type for it.
            ValueError: A value does not fit, or a type cannot be inferred.
        """
        from penstock.table.table_environment.program_rows import rows_table

        return rows_table(self, list(elements), schema, verify_schema=verify_schema)

    def from_pandas(
        self,
        pdf: pd.DataFrame,
        schema: RowType | Sequence[Any] | None = None,
        splits_num: int = 1,
    ) -> Table:
        """Return a table of the rows of a frame.

        Args:
            pdf: The frame.
            schema: The type of the rows, the names of the columns, or their types.
            splits_num: Without effect: a frame is read by one subtask.

        Raises:
            TypeError: The argument is not a frame, or SQL has no type for a column.
            ValueError: The numbers of columns differ.
        """
        from penstock.table.table.frames import batches_of_frame
        from penstock.table.table_environment.program_rows import batches_table

        if splits_num < 1:
            raise ValidationException(f"splits_num must be at least 1, got {splits_num}")
        row_type, batches = batches_of_frame(pdf, schema)
        return batches_table(self, row_type, batches)

    # Statements -------------------------------------------------------------------------------

    def sql_query(self, query: str) -> Table:
        """Return the table of a query.

        Raises:
            ValidationException: The text is not a valid query.
        """
        from penstock.table.sql.parsing import parse_query

        made = Table(self.planner.query(parse_query(query), query), self)
        made._query = query
        return made

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement.

        Raises:
            TableException: The statement is invalid or unsupported.
        """
        return self.statements.execute(stmt)

    def explain_sql(self, stmt: str, *extra_details: int) -> str:
        """Return the plan of a query, an INSERT or a statement set as text."""
        from penstock.table.sql.parsing import parse_statement
        from penstock.table.sql.statements import Execute, Insert, StatementSetBlock

        statement = parse_statement(stmt)
        if isinstance(statement, Execute):
            statement = statement.statement
        if isinstance(statement, Insert | StatementSetBlock):
            return self.explain_nodes(self.statements.insertions(stmt), extra_details)
        return self.sql_query(stmt).explain(*extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set of insertions that become one job."""
        from penstock.table.statement_set import StatementSet

        return StatementSet(self)

    def get_config(self) -> TableConfig:
        """Return the options."""
        return self._config

    def add_python_file(self, file_path: str) -> None:
        """Add a file or folder to the module search path of workers."""
        self._with_stream_environment(lambda e: e.add_python_file(file_path))

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install packages on the workers."""
        self._with_stream_environment(
            lambda e: e.set_python_requirements(requirements_file_path, requirements_cache_dir)
        )

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive on the workers."""
        self._with_stream_environment(lambda e: e.add_python_archive(archive_path, target_dir))

    def _with_stream_environment(self, action: Any) -> None:
        """Call a method of stream environments that changes this environment's options."""
        from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

        made = StreamExecutionEnvironment(self._config.root)
        action(made)
        self._config.root.add_all(made.get_configuration())

    # For tables -------------------------------------------------------------------------------

    def with_plan(self, catalogs: CatalogManager, options: Mapping[str, str]) -> TableEnvironment:
        """Return an environment with these options, other catalogs, and options of a plan."""
        settings = EnvironmentSettings(streaming=self.planner.is_streaming)
        made = TableEnvironment(settings, self._config.root, catalogs)
        made._config.add_configuration(self._config.get_configuration())
        for key, value in options.items():
            made._config.set(key, value)
        return made

    def resolve(self, binder: Binder, tree: Any, scope: Scope) -> PlanExpression:
        """Resolve an unresolved tree (beyond PyFlink)."""
        from penstock.table.expression.call_resolution import resolve

        return resolve(self.sql_expression, binder, tree, scope)

    def sql_expression(self, text: str, scope: Scope) -> PlanExpression:
        """Resolve an SQL expression (beyond PyFlink)."""
        from penstock.table.schema.resolution import bind_scalar

        bound: PlanExpression = bind_scalar(text, scope, self.planner.context(text))
        return bound

    def schema_of(self, table: PlannedTable) -> ResolvedSchema:
        """Return the columns of a table; for a table of a catalog, as declared."""
        if table._path is not None and not table._path.startswith("UnnamedTable$"):
            found = self.catalogs.find_table(self.catalogs.identifier(parsed_path(table._path)))
            if found is not None and not found.is_view:
                return self.planner.shown(self.planner.resolved(found))
        return self.planner.shown(schema_of_node(table.plan_node))

    def pipeline(
        self, table: PlannedTable, target: str | TableDescriptor, overwrite: bool
    ) -> TablePipeline:
        """Return the insertion of a table's rows into another table (beyond PyFlink).

        Raises:
            ValidationException: The table does not exist, or its columns differ.
        """
        from penstock.table.statements.insertion import sink_node
        from penstock.table.table_pipeline import TablePipeline

        identifier: ObjectIdentifier | None = None
        if isinstance(target, str):
            identifier = self.catalogs.identifier(parsed_path(target))
            found = self.catalogs.table(identifier, "Sink table")
            name = identifier
        else:
            name = self.catalogs.identifier([self.catalogs.unnamed_path()])
            found = described_table(target, self.schema_of(table))
        target_sink = self.planner.sink(name, found)
        sink = sink_node(
            name.as_summary_string(),
            table.plan_node,
            self.planner.resolved(found),
            target_sink.overwriting(name.as_summary_string()) if overwrite else target_sink,
        )
        statement = None
        if identifier is not None and table._query is not None:
            verb = "OVERWRITE" if overwrite else "INTO"
            statement = f"INSERT {verb} {identifier.as_serializable_string()} {table._query}"
        made = TablePipeline(sink, self, identifier, statement)
        self.pipelines[made] = None
        return made

    def attach(self, sinks: Sequence[Sink]) -> None:
        """Reject the call: there is no stream environment (beyond PyFlink).

        Raises:
            ValidationException: Always.
        """
        raise ValidationException(
            f"{len(sinks)} insertions cannot be attached: only a StreamTableEnvironment has a "
            "stream environment"
        )

    def explain_nodes(self, nodes: Sequence[Node], details: Sequence[Any]) -> str:
        """Return plans as text (beyond PyFlink)."""
        from penstock.table.planning.explanation import explained

        return explained(self.jobs, nodes, details)
