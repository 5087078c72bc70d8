"""StatementSet: several insertions as one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException
from penstock.table.table_pipeline import compiled_insertions

if TYPE_CHECKING:
    from penstock.table.compiled_plan.compiled_plan import CompiledPlan
    from penstock.table.plan.nodes import Sink
    from penstock.table.table.table import Table
    from penstock.table.table_context import TableContext
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result.table_result import TableResult

__all__ = ["StatementSet"]


class StatementSet:
    """Insertions that become one job; created by `TableEnvironment.create_statement_set`.

    Args:
        environment: The environment.
    """

    def __init__(self, environment: TableContext) -> None:
        self._environment = environment
        self._sinks: list[Sink] = []
        self._statements: list[str | None] = []

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add an insertion that ``Table.insert_into`` created."""
        self._environment.pipelines.pop(table_pipeline, None)
        self._sinks.append(table_pipeline.sink)
        self._statements.append(table_pipeline.statement)
        return self

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT.

        Raises:
            ValidationException: The statement is not an INSERT.
        """
        self._sinks.append(self._environment.statements.insertion(stmt))
        self._statements.append(stmt)
        return self

    def add_insert(
        self,
        target_path_or_descriptor: str | TableDescriptor,
        table: Table,
        overwrite: bool = False,
    ) -> StatementSet:
        """Add the insertion of a table's rows into the table of a path or descriptor."""
        pipeline = self._environment.pipeline(table, target_path_or_descriptor, overwrite)
        return self.add(pipeline)

    def compile_plan(self) -> CompiledPlan:
        """Return the compiled plan of the insertions.

        Raises:
            ValidationException: There is no insertion, or one does not come from SQL.
        """
        return compiled_insertions(self._statements, self._environment)

    def explain(self, *extra_details: int) -> str:
        """Return the plans as text."""
        return self._environment.explain_nodes(self._sinks, extra_details)

    def print_explain(self, *extra_details: int) -> None:
        """Write the plans to standard output."""
        print(self.explain(*extra_details), flush=True)

    def execute(self) -> TableResult:
        """Start the job; the set is empty afterwards.

        Raises:
            ValidationException: There is no insertion.
        """
        return self._environment.jobs.insert(self._taken())

    def attach_as_datastream(self) -> None:
        """Add the insertions to the stream environment's next job; the set is empty afterwards.

        Raises:
            ValidationException: There is no insertion, or no stream environment.
        """
        self._environment.attach(self._taken())

    def _taken(self) -> list[Sink]:
        if not self._sinks:
            raise ValidationException("The statement set has no insertion")
        sinks, self._sinks, self._statements = self._sinks, [], []
        return sinks
