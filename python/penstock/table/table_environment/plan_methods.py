"""The methods of a table environment for compiled plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.table.compiled_plan.compiled_plan import CompiledPlan
    from penstock.table.plan_reference import PlanReference
    from penstock.table.table_result.table_result import TableResult


class PlanMethods:
    """The part of `TableEnvironment` for compiled plans."""

    def compile_plan_sql(self: Any, stmt: str) -> CompiledPlan:
        """Return the compiled plan of an INSERT or a statement set.

        Raises:
            TableException: The statement is invalid, or uses tables that only the program has.
        """
        from penstock.table.compiled_plan.compiled_plan import CompiledPlan

        return CompiledPlan.of(stmt, self)

    def load_plan(self: Any, plan_reference: PlanReference) -> CompiledPlan:
        """Return a compiled plan that was stored.

        Raises:
            TableException: The plan cannot be read, or does not fit this environment.
        """
        from penstock.table.compiled_plan.compiled_plan import CompiledPlan

        return CompiledPlan.loaded(plan_reference, self)

    def execute_plan(self: Any, plan_reference: PlanReference) -> TableResult:
        """Start the job of a compiled plan that was stored; see `load_plan`."""
        result: TableResult = self.load_plan(plan_reference).execute()
        return result
