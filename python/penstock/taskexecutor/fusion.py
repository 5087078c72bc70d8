"""Composes neighbouring map and filter operators of a chain into one function.

Python calls a Python function from Python code much faster than from C, so that a run of small
functions costs one call from the operator loop instead of one each; and functions that are a
single expression cost no call at all where that makes no difference (``expressions``).
"""

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.expressions import EXPRESSION_ERRORS, expression_of
from penstock.taskexecutor.loop import (
    ChainingOutput,
    FilterOperator,
    FusedOperator,
    MapOperator,
    StreamOperator,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: What a composed function returns for elements that a filter dropped.
DROPPED: Final = object()

#: Shown in no traceback of user code, because it lies in the folder of penstock itself.
_FILE_NAME: Final = str(Path(__file__).resolve().parent / "<fused>")


class Fusion:
    """Grows runs of fusible operators while a chain is built from its tail."""

    def __init__(self) -> None:
        """Starts without runs."""
        self._stages: dict[int, list[Any]] = {}

    def entry(self, operator: StreamOperator) -> StreamOperator:
        """What feeds ``operator``: itself, or the fused operator that begins with it."""
        if not _is_fusible(operator):
            return operator
        target = _target_of(operator)
        stages = [operator, *self._stages.get(id(target), [target] if _is_fusible(target) else [])]
        if len(stages) == 1 and expression_of(stages[0].function) is None:
            return operator
        composition = Composition(stages)
        fused = FusedOperator(
            composition.function, composition.function_of_all, DROPPED, composition.blame
        )
        fused.setup(operator.context, stages[-1].output)
        self._stages[id(fused)] = stages
        return fused


class Composition:
    """One function for several map and filter operators.

    Attributes:
        function: Gives the element to emit, or ``DROPPED``.
        function_of_all: The elements to emit for all elements of an iterable, each made when it
            is asked for.
    """

    def __init__(self, stages: Sequence[Any]) -> None:
        """Composes the stages in their order."""
        self._stages = list(stages)
        self._stage_of_line: dict[tuple[str, int], int] = {}
        self._lines: list[str] = []
        self._expressions: list[str] = []
        for stage in stages:
            expression = expression_of(stage.function)
            if expression is None:
                break
            self._expressions.append(expression)
        self.function: Callable[[Any], Any] = self._compiled("fused", "return dropped", "return x")
        self.function_of_all: Callable[[Iterable[Any]], Iterator[Any]] = self._compiled(
            "fused_all", "continue", "yield x"
        )

    def blame(self, error: BaseException) -> BaseException:
        """Notes an error on the operator that it came from, if it came from one of these.

        Returns:
            What the user's function raised: ``error``, or the StopIteration that a generator
            does not let pass.
        """
        codes = (self.function.__code__, self.function_of_all.__code__)
        cause = error.__cause__
        if type(error) is RuntimeError and isinstance(cause, StopIteration):
            outermost = cause.__traceback__
            if outermost is not None and outermost.tb_frame.f_code is codes[1]:
                error = cause
        traceback = error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code in codes:
                stage = self._stage_of_line.get((code.co_name, traceback.tb_lineno))
                if stage is not None:
                    self._stages[stage].failed_with = error
                break
            traceback = traceback.tb_next
        return error

    def _compiled(self, name: str, drop: str, emit: str) -> Any:
        indices = range(len(self._stages))
        parameters = ", ".join(f"f{i}=f{i}" for i in indices)
        self._lines = []
        if name == "fused":
            self._add(0, f"def {name}(x, {parameters}, dropped=dropped, errors=errors):")
            depth = 1
        else:
            self._add(0, f"def {name}(values, {parameters}, errors=errors):")
            self._add(1, "for x in values:")
            depth = 2
        inlined = len(self._expressions)
        if inlined:
            self._add(depth, "if type(x) is int:")
            self._add(depth + 1, "element = x")
            self._add(depth + 1, "try:")
            for i, expression in enumerate(self._expressions):
                if type(self._stages[i]) is FilterOperator:
                    self._add(depth + 2, f"if not {expression}: {drop}", name, i)
                else:
                    self._add(depth + 2, f"x = {expression}", name, i)
            self._add(depth + 1, "except errors:")
            # Once more by the functions themselves, for a traceback that is theirs alone.
            self._add(depth + 2, "x = element")
            self._add(depth + 1, "else:")
            self._add_calls(depth + 2, range(inlined, len(self._stages)), name, drop)
            self._add(depth + 2, emit)
            if name != "fused":
                self._add(depth + 2, "continue")
        self._add_calls(depth, indices, name, drop)
        self._add(depth, emit)
        scope: dict[str, Any] = {f"f{i}": self._stages[i].function for i in indices}
        scope |= {"dropped": DROPPED, "errors": EXPRESSION_ERRORS}
        exec(compile("\n".join(self._lines), _FILE_NAME, "exec"), scope)
        return scope[name]

    def _add_calls(self, depth: int, stages: range, name: str, drop: str) -> None:
        for i in stages:
            if type(self._stages[i]) is FilterOperator:
                self._add(depth, f"if not f{i}(x): {drop}", name, i)
            else:
                self._add(depth, f"x = f{i}(x)", name, i)

    def _add(self, depth: int, line: str, name: str = "", stage: int = -1) -> None:
        self._lines.append("    " * depth + line)
        if stage >= 0:
            self._stage_of_line[name, len(self._lines)] = stage


def _target_of(operator: Any) -> Any:
    output = operator.output
    return output.target if type(output) is ChainingOutput else None


def _is_fusible(operator: Any) -> bool:
    if type(operator) not in (MapOperator, FilterOperator):
        return False
    function = getattr(operator.function, "__func__", operator.function)
    return isinstance(function, FunctionType)
