"""TablePipeline: an insertion that was not started yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.catalog.objects import ObjectIdentifier
    from penstock.table.compiled_plan.compiled_plan import CompiledPlan
    from penstock.table.plan.nodes import Sink
    from penstock.table.table_context import TableContext
    from penstock.table.table_result.table_result import TableResult

__all__ = ["TablePipeline"]


class TablePipeline:
    """The insertion of a table's rows into another table; created by `Table.insert_into`.

    Args:
        sink: The plan.
        environment: The environment.
        identifier: The full name of the written table; None for a descriptor.
        statement: The same as an INSERT; None if the rows are not those of a query of SQL.
    """

    def __init__(
        self,
        sink: Sink,
        environment: TableContext,
        identifier: ObjectIdentifier | None,
        statement: str | None = None,
    ) -> None:
        self.sink = sink
        self.statement = statement
        self._environment = environment
        self._identifier = identifier

    def compile_plan(self) -> CompiledPlan:
        """Return the compiled plan of the insertion.

        Raises:
            ValidationException: The rows are not those of ``sql_query`` or ``from_path``, or the
                target is a descriptor.
        """
        self._environment.pipelines.pop(self, None)
        return compiled_insertions([self.statement], self._environment)

    def execute(self) -> TableResult:
        """Start the job."""
        self._environment.pipelines.pop(self, None)
        return self._environment.jobs.insert([self.sink])

    def explain(self, *extra_details: int) -> str:
        """Return the plan as text."""
        self._environment.pipelines.pop(self, None)
        return self._environment.explain_nodes([self.sink], extra_details)

    def print_explain(self, *extra_details: int) -> None:
        """Print the plan."""
        print(self.explain(*extra_details), flush=True)

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Return the full name of the written table; None for a descriptor."""
        return self._identifier

    def __str__(self) -> str:
        return self.sink.describe()


def compiled_insertions(
    statements: Sequence[str | None], environment: TableContext
) -> CompiledPlan:
    """Return the compiled plan of insertions, whose statements are None if SQL cannot express them.

    Raises:
        ValidationException: A statement is None, or there is none.
    """
    if None in statements or not statements:
        raise ValidationException(
            "A plan is compiled from SQL: insert the rows of sql_query(…) or from_path(…) into a "
            "table of a catalog, or use compile_plan_sql('INSERT INTO …')"
        )
    texts = [(text or "").strip().rstrip(";") for text in statements]
    if len(texts) == 1:
        return environment.compile_plan_sql(texts[0])
    # Each semicolon begins a line, since a statement may end with a comment.
    body = "\n;\n".join([*texts, "END"])
    return environment.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN\n{body}")
