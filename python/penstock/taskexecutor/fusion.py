"""Composes neighbouring map and filter operators of a chain into one function.

Python calls a Python function from Python code much faster than from C, so that a run of small
functions costs one call from the operator loop instead of one each.
"""

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.loop import (
    ChainingOutput,
    FilterOperator,
    FusedOperator,
    MapOperator,
    StreamOperator,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a composed function returns for elements that a filter dropped.
DROPPED: Final = object()

#: Shown in no traceback of user code, because it lies in the folder of penstock itself.
_FILE_NAME: Final = str(Path(__file__).resolve().parent / "<fused>")

_FIRST_STAGE_LINE: Final = 2


class Fusion:
    """Grows runs of fusible operators while a chain is built from its tail."""

    def __init__(self) -> None:
        """Starts without runs."""
        self._stages: dict[int, list[StreamOperator]] = {}

    def entry(self, operator: StreamOperator) -> StreamOperator:
        """What feeds ``operator``: itself, or the fused operator that begins with it."""
        if not _is_fusible(operator):
            return operator
        target = _target_of(operator)
        following = self._stages.get(id(target))
        if following is None:
            if not _is_fusible(target):
                return operator
            following = [target]
        stages = [operator, *following]
        fused = FusedOperator(compose(stages), DROPPED, Blame(stages))
        fused.setup(operator.context, stages[-1].output)
        self._stages[id(fused)] = stages
        return fused


def compose(stages: Sequence[Any]) -> FunctionType:
    """One function for several map and filter operators, a line for each."""
    parameters = ", ".join(f"f{i}=f{i}" for i in range(len(stages)))
    lines = [f"def fused(x, {parameters}, dropped=dropped):"]
    for i, stage in enumerate(stages):
        if type(stage) is FilterOperator:
            lines.append(f"    if not f{i}(x): return dropped")
        else:
            lines.append(f"    x = f{i}(x)")
    lines.append("    return x")
    scope: dict[str, Any] = {f"f{i}": stage.function for i, stage in enumerate(stages)}
    scope["dropped"] = DROPPED
    exec(compile("\n".join(lines), _FILE_NAME, "exec"), scope)
    composed: FunctionType = scope["fused"]
    return composed


class Blame:
    """Finds the operator whose function raised, by the line of the composed function."""

    def __init__(self, stages: Sequence[StreamOperator]) -> None:
        """Keeps the operators in the order of their lines."""
        self._stages = list(stages)

    def __call__(self, error: BaseException) -> None:
        """Notes ``error`` on the operator that it came from."""
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == _FILE_NAME:
                self._stages[traceback.tb_lineno - _FIRST_STAGE_LINE].failed_with = error
                return
            traceback = traceback.tb_next


def _target_of(operator: Any) -> Any:
    output = operator.output
    return output.target if type(output) is ChainingOutput else None


def _is_fusible(operator: Any) -> bool:
    return type(operator) in (MapOperator, FilterOperator) and isinstance(
        operator.function, FunctionType
    )
