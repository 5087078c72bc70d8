"""TablePipeline: an insertion that was not started yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.table.catalog import ObjectIdentifier
    from penstock.table.plan.nodes import Sink
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_result import TableResult

__all__ = ["TablePipeline"]


class TablePipeline:
    """The insertion of a table's rows into another table; created by `Table.insert_into`.

    Args:
        sink: The plan.
        environment: The environment.
        identifier: The full name of the written table; None for a descriptor.
    """

    def __init__(
        self, sink: Sink, environment: TableEnvironment, identifier: ObjectIdentifier | None
    ) -> None:
        self.sink = sink
        self._environment = environment
        self._identifier = identifier

    def execute(self) -> TableResult:
        """Start the job."""
        return self._environment.jobs.insert([self.sink])

    def explain(self, *extra_details: int) -> str:
        """Return the plan as text."""
        return self._environment.explain_nodes([self.sink], extra_details)

    def print_explain(self, *extra_details: int) -> None:
        """Print the plan."""
        print(self.explain(*extra_details), flush=True)

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Return the full name of the written table; None for a descriptor."""
        return self._identifier

    def __str__(self) -> str:
        return self.sink.describe()
