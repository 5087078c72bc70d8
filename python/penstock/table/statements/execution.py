"""Execution of SQL statements: definitions, lists, insertions and queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table import exceptions as errors
from penstock.table.catalog.catalog import GenericInMemoryCatalog
from penstock.table.catalog.objects import CatalogBaseTable, CatalogDatabase, CatalogFunction
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions.listed_names import built_in_names
from penstock.table.plan_reference import PlanReference
from penstock.table.planning.planner import schema_of_node
from penstock.table.schema.schema import DeclaredColumn, Schema
from penstock.table.sql import statements as s
from penstock.table.sql.parsing import parse_statement
from penstock.table.statements import show
from penstock.table.statements.alteration import (
    altered,
    declared_schema,
    schema_of_query,
    with_key_not_null,
)
from penstock.table.statements.insertion import sink_node
from penstock.table.statements.like_clause import liked_table
from penstock.table.statements.partitions import change_partition, partition_list
from penstock.table.table_result.table_result import ExplainResult, OkResult, StaticResult
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.catalog.catalog import Catalog
    from penstock.table.catalog.objects import ObjectIdentifier
    from penstock.table.plan.nodes import Node, Sink
    from penstock.table.table_context import TableContext
    from penstock.table.table_result.table_result import TableResult

_NEVER_ANY: Final = {
    "JARS": "jars",
    "MATERIALIZED TABLES": "materialized table",
    "MODELS": "model name",
}
"""The columns of lists that are always empty, since there are no such things."""


class StatementExecution:
    """Executes the statements of one environment.

    Args:
        environment: The environment.
    """

    def __init__(self, environment: TableContext) -> None:
        self._environment = environment
        self._catalogs = environment.catalogs
        self._planner = environment.planner
        self._jobs = environment.jobs

    def execute(self, text: str) -> TableResult:
        """Execute one statement.

        Raises:
            TableException: The statement is invalid or unsupported.
        """
        return self._run(parse_statement(text), text)

    def _run(self, statement: s.Statement, text: str) -> TableResult:
        match statement:
            case s.Query():
                return self._jobs.query(self._planner.query(statement.tree, text))
            case s.Insert():
                return self._jobs.insert([self._sink(statement, text)])
            case s.StatementSetBlock():
                return self._jobs.insert([self._sink(i, text) for i in statement.statements])
            case s.Execute():
                return self._run(statement.statement, text)
            case s.CompilePlan():
                return self._compile(statement)
            case s.ExecutePlan():
                return self._environment.execute_plan(PlanReference.from_file(statement.file))
            case s.Explain():
                return ExplainResult(self._explained(statement, text))
            case s.SetOption() | s.ResetOption():
                word = "SET" if isinstance(statement, s.SetOption) else "RESET"
                raise TableException(
                    f"Unsupported query: {text}: {word} belongs to the SQL shell; use "
                    "get_config().set(...)"
                )
            case s.CreateTable():
                return self._create_table(statement, text)
            case s.Describe():
                return self._describe(statement)
            case s.Show():
                return self._show(statement)
        self._define(statement, text)
        return OkResult()

    # Queries and insertions -------------------------------------------------------------------

    def insertion(self, text: str) -> Sink:
        """Return the plan of an INSERT.

        Raises:
            ValidationException: The statement is not an INSERT.
        """
        statement = parse_statement(text)
        if not isinstance(statement, s.Insert):
            raise ValidationException(
                "Unsupported SQL query! add_insert_sql() only accepts a single SQL statement of "
                f"type INSERT, got {text}"
            )
        return self._sink(statement, text)

    def insertions(self, text: str) -> list[Sink]:
        """Return the plans of an INSERT or a statement set.

        Raises:
            ValidationException: The statement is neither.
        """
        statement = parse_statement(text)
        if isinstance(statement, s.Execute):
            statement = statement.statement
        if isinstance(statement, s.Insert):
            return [self._sink(statement, text)]
        if isinstance(statement, s.StatementSetBlock):
            return [self._sink(insert, text) for insert in statement.statements]
        raise ValidationException(
            "Unsupported SQL query! Only an INSERT or a statement set can be compiled to a plan, "
            f"got {text}"
        )

    def _compile(self, statement: s.CompilePlan) -> TableResult:
        from penstock.table.compiled_plan.compiled_plan import plan_exists

        is_kept = statement.if_not_exists or statement.is_executed
        if not is_kept or not plan_exists(statement.file, self._environment):
            plan = self._environment.compile_plan_sql(statement.text)
            plan.write_to_file(statement.file)
        if not statement.is_executed:
            return OkResult()
        return self._environment.execute_plan(PlanReference.from_file(statement.file))

    def _sink(self, statement: s.Insert, text: str) -> Sink:
        identifier = self._catalogs.identifier(statement.path)
        table = self._catalogs.table(identifier, "Sink table")
        query = self._planner.query(statement.query, text)
        partition = {
            name: self._constant(value)
            for name, value in statement.partition.items()
            if value is not None
        }
        unknown = [name for name in statement.partition if name not in table.partition_keys]
        if unknown:
            raise ValidationException(
                f"Table {identifier.as_summary_string()} is not partitioned by {unknown[0]}"
            )
        name = identifier.as_summary_string()
        sink = self._planner.sink(identifier, table, statement.options)
        return sink_node(
            name,
            query,
            self._planner.resolved(table),
            sink.overwriting(name) if statement.is_overwrite else sink,
            columns=statement.columns,
            partition=partition,
        )

    def _constant(self, tree: Any) -> Any:
        from penstock.table.plan.scopes import Scope
        from penstock.table.schema.resolution import bind_tree

        return bind_tree(tree, Scope(), self._planner.context())

    def _explained(self, statement: s.Explain, text: str) -> str:
        inner = statement.statement
        nodes: list[Node]
        match inner:
            case s.Query():
                nodes = [self._planner.query(inner.tree, text)]
            case s.Insert():
                nodes = [self._sink(inner, text)]
            case s.StatementSetBlock():
                nodes = [self._sink(insert, text) for insert in inner.statements]
            case _:
                raise TableException(
                    f"Unsupported operation: EXPLAIN of {type(inner).__name__}: only queries and "
                    "insertions have a plan"
                )
        return self._environment.explain_nodes(nodes, statement.details)

    # Tables and views -------------------------------------------------------------------------

    def _create_table(self, statement: s.CreateTable, text: str) -> TableResult:
        identifier = self._catalogs.identifier(statement.path)
        if statement.must_exist and self._catalogs.find_table(identifier) is None:
            raise ValidationException(
                f"The table {identifier.as_summary_string()} to be replaced doesn't exist: use "
                "CREATE OR REPLACE TABLE … AS to create it"
            )
        query = None if statement.query is None else self._planner.query(statement.query, text)
        table = self._table(statement, query)
        # Checked now, so that the error is raised by the faulty statement.
        columns = self._planner.resolved(table).get_column_names()
        for key in table.partition_keys:
            if key not in columns:
                raise ValidationException(
                    f"Partition column '{key}' not defined in the table schema. Available "
                    f"columns: {columns}"
                )
        sink = None if query is None else self._planner.sink(identifier, table)
        if statement.or_replace:
            self._catalogs.drop_table(
                identifier,
                is_view=False,
                is_temporary=statement.is_temporary,
                ignore_if_not_exists=True,
            )
        is_new = self._catalogs.create_table(
            identifier,
            table,
            is_temporary=statement.is_temporary,
            ignore_if_exists=statement.if_not_exists,
        )
        if query is None or not is_new:
            return OkResult()
        name = identifier.as_summary_string()
        written = self._planner.resolved(table)
        node = sink_node(name, query, written, sink, columns=query.schema.names)
        return self._jobs.insert([node])

    def created_table(self, text: str) -> CatalogBaseTable:
        """Return the table of a CREATE TABLE, without adding it to a catalog."""
        statement = parse_statement(text)
        assert isinstance(statement, s.CreateTable)
        return self._table(statement, None)

    def _table(self, statement: s.CreateTable, query: Node | None) -> CatalogBaseTable:
        schema = declared_schema(statement)
        table = CatalogBaseTable(
            schema,
            dict(statement.options),
            tuple(statement.partition_keys),
            statement.comment,
            distribution=statement.distribution,
        )
        if statement.like is not None:
            source = self._catalogs.table(
                self._catalogs.identifier(statement.like.path), "Source table of the LIKE clause"
            )
            base = source.schema
            if source.is_view:
                base = self._planner.resolved(source).declaration()
            return liked_table(table, source, base, statement.like)
        if query is not None:
            made = schema_of_query(schema, statement, schema_of_node(query).columns)
            return replace(table, schema=with_key_not_null(made))
        return table

    def _describe(self, statement: s.Describe) -> TableResult:
        if statement.kind == "FUNCTION":
            return self._described_function(statement.path)
        if statement.kind == "CATALOG":
            catalog = self._catalogs.catalog(statement.path[0])
            kind = (
                "generic_in_memory"
                if isinstance(catalog, GenericInMemoryCatalog)
                else type(catalog).__name__
            )
            options, comment = self._catalogs.description(statement.path[0])
            rows: list[list[Any]] = [
                ["name", statement.path[0]],
                ["type", options.pop("type", kind)],
                ["comment", comment],
            ]
            if statement.is_extended:
                rows += [[f"option:{key}", value] for key, value in sorted(options.items())]
            kinds = [DataTypes.STRING()] * 2
            return StaticResult(["info name", "info value"], kinds, rows)
        if statement.kind == "DATABASE":
            name, database = self._catalogs.database_path(statement.path)
            found = self._catalogs.catalog(name).get_database(database)
            rows = [["database name", database], ["comment", found.comment or ""]]
            return StaticResult(["info name", "info value"], [DataTypes.STRING()] * 2, rows)
        identifier = self._catalogs.identifier(statement.path)
        table = self._catalogs.find_table(identifier)
        if table is None:
            raise ValidationException(
                f"Tables or views with the identifier '{identifier.as_summary_string()}' doesn't "
                "exist"
            )
        return show.described(self._planner.shown(self._planner.resolved(table)))

    def _described_function(self, path: s.Path) -> TableResult:
        function = self._catalogs.catalog_function(path)
        is_own = function is not None
        if not is_own and path[-1].upper() not in built_in_names():
            raise ValidationException(f"Function {'.'.join(path)} doesn't exist")
        rows = [["is system function", str(not is_own).lower()]]
        if function is not None:
            rows += [["language", function.language], ["class name", function.class_name]]
        return StaticResult(["info name", "info value"], [DataTypes.STRING()] * 2, rows)

    # Lists ------------------------------------------------------------------------------------

    def _show(self, statement: s.Show) -> TableResult:
        catalogs = self._catalogs
        match statement.kind:
            case "CURRENT CATALOG":
                return show.listed("current catalog name", [catalogs.current_catalog])
            case "CURRENT DATABASE":
                return show.listed("current database name", [catalogs.current_database])
            case "CATALOGS":
                return show.listed("catalog name", catalogs.list_catalogs(), statement)
            case "DATABASES":
                catalog = statement.path[0] if statement.path else catalogs.current_catalog
                names = catalogs.catalog(catalog).list_databases()
                return show.listed("database name", names, statement)
            case "TABLES":
                return show.listed("table name", catalogs.list_tables(statement.path), statement)
            case "VIEWS":
                return show.listed("view name", catalogs.list_views(statement.path), statement)
            case "FUNCTIONS":
                names = self._environment.list_functions()
                return show.listed("function name", names, statement)
            case "USER FUNCTIONS":
                return show.listed("function name", catalogs.list_functions(), statement)
            case "MODULES":
                return show.listed("module name", self._environment.list_modules())
            case "FULL MODULES":
                rows = [[name, True] for name in self._environment.list_modules()]
                kinds = [DataTypes.STRING(), DataTypes.BOOLEAN()]
                return StaticResult(["module name", "used"], kinds, rows)
            case "COLUMNS":
                return self._columns(statement)
            case "CREATE TABLE" | "CREATE VIEW":
                return self._created(statement)
            case "CREATE CATALOG":
                self._catalogs.catalog(statement.path[0])
                return show.created_catalog(
                    statement.path[0], *self._catalogs.description(statement.path[0])
                )
            case "CREATE FUNCTION":
                function = self._catalogs.catalog_function(statement.path)
                if function is None:
                    raise ValidationException(
                        f"No function {'.'.join(statement.path)} has been created"
                    )
                return show.created_function(statement.path, function)
            case "PARTITIONS":
                identifier = catalogs.identifier(statement.path)
                return partition_list(catalogs, identifier, statement.partition)
            case "JARS" | "MATERIALIZED TABLES" | "MODELS":
                return show.listed(_NEVER_ANY[statement.kind], [])
        raise TableException(f"SHOW {statement.kind} is not supported")

    def _columns(self, statement: s.Show) -> TableResult:
        identifier = self._catalogs.identifier(statement.path)
        table = self._catalogs.table(identifier)
        found = show.described(self._planner.shown(self._planner.resolved(table)))
        if statement.pattern is None:
            return found
        pattern = show.like_pattern(statement.pattern, is_insensitive=statement.is_insensitive)
        schema = found.get_table_schema()
        rows = [
            list(row)
            for row in found.collect()
            if (pattern.fullmatch(row[0]) is None) == statement.is_negated
        ]
        return StaticResult(schema.get_field_names(), schema.get_field_data_types(), rows)

    def _created(self, statement: s.Show) -> TableResult:
        identifier = self._catalogs.identifier(statement.path)
        table = self._catalogs.table(identifier)
        schema = self._planner.resolved(table)
        is_temporary = self._catalogs.is_temporary(identifier)
        if statement.kind == "CREATE TABLE":
            return show.created_table(identifier, table, schema, is_temporary=is_temporary)
        return show.created_view(identifier, table, schema, is_temporary=is_temporary)

    # Definitions ------------------------------------------------------------------------------

    def _define(self, statement: s.Statement, text: str) -> None:
        catalogs = self._catalogs
        match statement:
            case s.CreateView():
                self._create_view(statement, text)
            case s.CreateFunction():
                function = CatalogFunction(statement.class_name, statement.language)
                catalogs.create_function(
                    statement.path,
                    function,
                    is_temporary=statement.is_temporary,
                    is_system=statement.is_system,
                    ignore_if_exists=statement.if_not_exists,
                )
            case s.CreateDatabase():
                self._create_database(statement)
            case s.CreateCatalog():
                self._create_catalog(statement)
            case s.Drop():
                self._drop(statement)
            case s.Alter():
                self._alter(statement, text)
            case s.Use():
                self._use(statement)
            case s.LoadModule() | s.UnloadModule():
                raise TableException(
                    f"Module {statement.name} is not supported: penstock has the module core"
                )
            case _:
                raise TableException(f"{type(statement).__name__} is not supported")

    def _create_view(self, statement: s.CreateView, text: str) -> None:
        from penstock.table.plan.queries import renamed

        node = self._planner.query(statement.query, text)
        named = renamed(node, list(statement.columns), statement.path[-1])
        view = self._view_of(named, statement.query, statement.text, statement.comment)
        self._catalogs.create_table(
            self._catalogs.identifier(statement.path),
            view,
            is_temporary=statement.is_temporary,
            ignore_if_exists=statement.if_not_exists,
        )

    def _view_of(self, node: Node, tree: Any, text: str, comment: str | None) -> CatalogBaseTable:
        columns = [
            DeclaredColumn(column.name, column.data_type) for column in schema_of_node(node).columns
        ]
        return CatalogBaseTable(
            Schema(columns),
            comment=comment,
            query=text,
            expanded_query=self._planner.expanded_text(tree, text),
            namespace=(self._catalogs.current_catalog, self._catalogs.current_database),
        )

    def _create_database(self, statement: s.CreateDatabase) -> None:
        catalog, name = self._catalogs.database_path(statement.path)
        database = CatalogDatabase(dict(statement.options), statement.comment)
        self._validated(
            lambda: self._catalogs.catalog(catalog).create_database(
                name, database, statement.if_not_exists
            )
        )

    def _create_catalog(self, statement: s.CreateCatalog) -> None:
        exists = self._catalogs.find_catalog(statement.name) is not None
        if exists and statement.if_not_exists:
            return
        options = dict(statement.options)
        kind = options.pop("type", None)
        catalog: Catalog
        if kind == "generic_in_memory":
            default = options.get("default-database")
            catalog = GenericInMemoryCatalog(statement.name, default)
        else:
            from penstock.table.catalog.external_catalogs import external_catalog

            catalog = external_catalog(statement.name, kind, options)
        self._catalogs.register_catalog(
            statement.name, catalog, statement.options, statement.comment
        )

    def _drop(self, statement: s.Drop) -> None:
        catalogs = self._catalogs
        if statement.kind in ("TABLE", "VIEW"):
            catalogs.drop_table(
                catalogs.identifier(statement.path),
                is_view=statement.kind == "VIEW",
                is_temporary=statement.is_temporary,
                ignore_if_not_exists=statement.if_exists,
            )
        elif statement.kind == "FUNCTION":
            catalogs.drop_function(
                statement.path,
                is_temporary=statement.is_temporary,
                is_system=statement.is_system,
                ignore_if_not_exists=statement.if_exists,
            )
        elif statement.kind == "CATALOG":
            catalogs.drop_catalog(statement.path[0], statement.if_exists)
        else:
            catalog, name = catalogs.database_path(statement.path)
            if (catalog, name) == (catalogs.current_catalog, catalogs.current_database):
                raise ValidationException("Cannot drop a database which is currently in use")
            self._validated(
                lambda: catalogs.catalog(catalog).drop_database(
                    name, statement.if_exists, statement.is_cascade
                )
            )

    @staticmethod
    def _validated(action: Callable[[], None]) -> None:
        try:
            action()
        except errors.CatalogException as error:
            raise ValidationException(f"Could not execute the statement: {error}") from error

    def _alter(self, statement: s.Alter, text: str) -> None:
        catalogs = self._catalogs
        if statement.kind == "DATABASE":
            catalog, name = catalogs.database_path(statement.path)
            database = catalogs.catalog(catalog).get_database(name)
            properties = {**database.properties, **statement.arguments}
            changed = CatalogDatabase(properties, database.comment)
            catalogs.catalog(catalog).alter_database(name, changed, False)
            return
        if statement.kind == "FUNCTION":
            catalogs.drop_function(
                statement.path, is_temporary=False, ignore_if_not_exists=statement.if_exists
            )
            catalogs.create_function(
                statement.path, CatalogFunction(*statement.arguments), is_temporary=False
            )
            return
        if statement.kind not in ("TABLE", "VIEW"):
            raise TableException(f"ALTER {statement.kind} is not supported")
        identifier = catalogs.identifier(statement.path)
        table = catalogs.find_table(identifier)
        if table is None or table.is_view != (statement.kind == "VIEW"):
            if statement.if_exists:
                return
            raise ValidationException(
                f"{statement.kind.capitalize()} {identifier.as_summary_string()} doesn't exist or "
                "is a view"
            )
        if statement.action == "RENAME":
            catalogs.rename_table(identifier, statement.arguments[-1])
            return
        if statement.kind == "VIEW":
            self._alter_view(identifier, statement, text)
            return
        if statement.action in ("ADD PARTITION", "DROP PARTITION"):
            is_added = statement.action == "ADD PARTITION"
            change_partition(catalogs, identifier, statement.arguments, is_added=is_added)
            return
        made = altered(table, statement)
        self._planner.resolved(made)
        catalogs.replace_table(identifier, made)

    def _alter_view(self, identifier: ObjectIdentifier, statement: s.Alter, text: str) -> None:
        if statement.action != "AS":
            raise TableException(f"ALTER VIEW … {statement.action} is not supported")
        tree, written = statement.arguments
        comment = self._catalogs.table(identifier).comment
        view = self._view_of(self._planner.query(tree, text), tree, written, comment)
        self._catalogs.replace_table(identifier, view)

    def _use(self, statement: s.Use) -> None:
        if statement.kind == "CATALOG":
            self._catalogs.use_catalog(statement.names[0])
        elif statement.kind == "DATABASE":
            self._catalogs.use_database(statement.names)
        elif statement.names != ("core",):
            raise ValidationException(
                f"No module with name '{statement.names[0]}' exists: penstock has the module core"
            )
