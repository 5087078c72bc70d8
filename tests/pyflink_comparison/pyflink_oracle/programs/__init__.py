"""Whole programs: each public function of these modules is one, and returns values to compare.

A program gets a `Flink` and creates everything inside itself, so that its functions are pickled by
value for the workers.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import cloudpickle

from pyflink_oracle import outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink_oracle.programs.flink import Flink

#: Subjects of everyday use.
USES = (
    "window_uses",
    "state_uses",
    "timer_uses",
    "two_input_uses",
    "value_uses",
    "job_uses",
)

_SUBJECTS = (
    "flink",
    "aggregations",
    "arguments",
    "batch",
    "combined",
    "connected",
    "functions",
    "given",
    "partitions",
    "positions",
    "process",
    "relatives",
    "states",
    "timer_order",
    "typed",
    "types",
    "windows",
    "written",
    *USES,
)


def programs() -> dict[str, Callable[[Flink], Any]]:
    """Return all programs by `subject.name`, in source order."""
    cloudpickle.register_pickle_by_value(outcomes)
    found: dict[str, Callable[[Flink], Any]] = {}
    for subject in _SUBJECTS:
        module = importlib.import_module(f"{__name__}.{subject}")
        cloudpickle.register_pickle_by_value(module)
        for name, program in vars(module).items():
            written_here = getattr(program, "__module__", None) == module.__name__
            if written_here and inspect.isfunction(program) and not name.startswith("_"):
                found[f"{subject}.{name}"] = program
        for name, program in getattr(module, "GENERATED", {}).items():
            found[f"{subject}.{name}"] = program
    return found
