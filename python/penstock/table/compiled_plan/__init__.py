"""Compiled plans: PyFlink's ``compiled_plan``, their compilation and stored form."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.compiled_plan.compiled_plan import CompiledPlan

__all__ = [
    "CompiledPlan",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CompiledPlan": "compiled_plan",
    },
)
