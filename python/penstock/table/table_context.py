"""The contract of a table environment: what its tables, insertions and plans use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.catalog.manager import CatalogManager
    from penstock.table.compiled_plan.compiled_plan import CompiledPlan
    from penstock.table.plan.binder import Binder
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node, Sink
    from penstock.table.plan.scopes import Scope
    from penstock.table.plan_reference import PlanReference
    from penstock.table.planning.job import TableJobs
    from penstock.table.planning.planner import Planner
    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.statements.execution import StatementExecution
    from penstock.table.table_config import TableConfig
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result.table_result import TableResult


class PlannedTable(Protocol):
    """A table of a program, as its environment sees it."""

    _path: str | None
    _query: str | None

    @property
    def plan_node(self) -> Node:
        """The plan of the relation."""


class TableContext(Protocol):
    """The environment of tables.

    Attributes:
        catalogs: The catalogs.
        planner: Plans statements.
        jobs: Runs plans.
        pipelines: Insertions of which nothing was asked yet, as keys; Flink 1 executes them.
        statements: Executes statements.
    """

    catalogs: CatalogManager
    planner: Planner
    jobs: TableJobs
    pipelines: dict[TablePipeline, None]
    statements: StatementExecution

    def get_config(self) -> TableConfig:
        """Return the options."""

    def with_plan(self, catalogs: CatalogManager, options: Mapping[str, str]) -> TableContext:
        """Return an environment with these options, other catalogs, and options of a plan."""

    def list_functions(self) -> list[str]:
        """Return the names of the functions."""

    def list_modules(self) -> list[str]:
        """Return the names of the modules in use."""

    def resolve(self, binder: Binder, tree: Any, scope: Scope) -> Expression:
        """Resolve an unresolved tree."""

    def schema_of(self, table: PlannedTable) -> ResolvedSchema:
        """Return the columns of a table; for a table of a catalog, as declared."""

    def register_unnamed(self, table: PlannedTable) -> str:
        """Register a table under a generated name, and return the name."""

    def pipeline(
        self, table: PlannedTable, target: str | TableDescriptor, overwrite: bool
    ) -> TablePipeline:
        """Return the insertion of a table's rows into another table."""

    def attach(self, sinks: Sequence[Sink]) -> None:
        """Add insertions to the stream environment's next job."""

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Return the compiled plan of an INSERT or a statement set."""

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Start the job of a compiled plan that was stored."""

    def explain_nodes(self, nodes: Sequence[Node], details: Sequence[Any]) -> str:
        """Return plans as text."""
