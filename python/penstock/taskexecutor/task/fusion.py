"""Composes neighbouring map and filter operators of a chain into one function.

Stages that can be evaluated (``expressions``) become one program of the native runtime.  Other
stages become one Python function: Python calls a Python function from Python code much faster than
from C, so a run of small functions costs one call from the operator loop instead of one each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from penstock.expressions.evaluation import Stage
from penstock.taskexecutor.compiled import (
    ChainingOutput,
    CopyingChainingOutput,
    FilterOperator,
    FusedOperator,
    MapOperator,
    StreamOperator,
    ValueCopier,
    truth,
)
from penstock.taskexecutor.copies.copy_plans import UNCHANGING_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.expressions.bytecode import Types
    from penstock.expressions.evaluation import Evaluation
    from penstock.expressions.program import Program

#: What a composed function returns for records that a filter dropped.
DROPPED: Final = object()

#: Never shown in tracebacks of user code, because it lies in penstock's own folder.
_FILE_NAME: Final = str(Path(__file__).resolve().parent / "<fused>")


class Fusion:
    """Grows runs of fusible operators while a chain is built from its tail."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Create an empty fusion; ``evaluation`` decides which functions need no call."""
        self._evaluation = evaluation
        self._runs: dict[int, _Run] = {}

    def entry(self, operator: StreamOperator, types: Types = ()) -> StreamOperator:
        """Return the receiver for ``operator``: itself, or the fused operator that starts with it.

        Args:
            operator: An operator of the chain; those behind it were passed before.
            types: The declared types of its inputs.
        """
        if type(operator) not in (MapOperator, FilterOperator):
            return operator
        function: Any = operator.function  # type: ignore[attr-defined]
        stage = Stage(function, type(operator) is FilterOperator, types)
        run = _Run([operator], [stage], self._evaluation.program_of_stages([stage]), [])
        if run.program is None and not _is_python(operator):
            return operator
        output: Any = operator.output
        if type(output) in (ChainingOutput, CopyingChainingOutput):
            following = self._runs.get(id(output.target))
            if following is not None:
                run = self._joined(run, getattr(output, "copier", None), following)
        # A consumer of many records at once gets them from a single function, too.
        is_alone = run.program is None and len(run.stages) == 1 and not _takes_many(output)
        entry = operator if is_alone else run.fused()
        self._runs[id(entry)] = run
        return entry

    def _joined(self, run: _Run, copier: ValueCopier | None, following: _Run) -> _Run:
        """Return both runs joined, or the first if they differ in kind or exceed one program."""
        stages = run.stages + following.stages
        program = None if copier is not None else self._evaluation.program_of_stages(stages)
        if program is None and (run.program is not None or following.program is not None):
            return run
        operators = run.operators + following.operators
        return _Run(operators, stages, program, [*run.copiers, copier, *following.copiers])


@dataclass(frozen=True)
class _Run:
    """Neighbouring operators, with their program if they can be evaluated.

    A copier between two operators copies the values passed from the first to the second.
    """

    operators: list[Any]
    stages: list[Stage]
    program: Program | None
    copiers: list[ValueCopier | None]

    def fused(self) -> FusedOperator:
        composition = Composition(self.operators, self.copiers)
        function, function_of_all = composition.function, composition.function_of_all
        if self.program is not None:
            from penstock._native.evaluator.expression import Expression

            expression = Expression(function, self.program, DROPPED, function_of_all)
            for operator in self.operators:
                if operator.context is not None:
                    operator.context.evaluation.expressions.append(expression)
            function, function_of_all = expression.callable(), expression.over
        fused = FusedOperator(function, function_of_all, DROPPED, composition.blame)
        fused.setup(self.operators[0].context, self.operators[-1].output)
        if self.program is not None and fused.context is not None:
            fused.columns = fused.context.evaluation.over_columns(self.program)
        return fused


class Composition:
    """One function for several map and filter operators.

    Attributes:
        function: Returns the record to emit, or ``DROPPED``.
        function_of_all: Yields the records to emit for all records of an iterable, lazily.
    """

    def __init__(self, stages: Sequence[Any], copiers: Sequence[ValueCopier | None] = ()) -> None:
        """Compose the stages in their order.

        Args:
            stages: The operators.
            copiers: Copier of the records between two operators; None where there is none.
        """
        self._stages = list(stages)
        self._copiers = [*copiers, *[None] * (len(self._stages) - len(copiers))]
        self._stage_of_line: dict[tuple[str, int], int] = {}
        self.function: Callable[[Any], Any] = self._compiled("fused", "return dropped", "return x")
        self.function_of_all: Callable[[Iterable[Any]], Iterator[Any]] = self._compiled(
            "fused_all", "continue", "yield x"
        )

    def blame(self, error: BaseException) -> BaseException:
        """Record an error on the operator that raised it, if it is one of these.

        Returns:
            The user function's exception: ``error``, or the StopIteration that a generator
            replaced.
        """
        # By identity: another composition of equally many stages has equal code.
        codes = {id(self.function.__code__), id(self.function_of_all.__code__)}
        cause = error.__cause__
        if type(error) is RuntimeError and isinstance(cause, StopIteration):
            outermost = cause.__traceback__
            if outermost is not None and id(outermost.tb_frame.f_code) in codes:
                error = cause
        traceback = error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if id(code) in codes:
                stage = self._stage_of_line.get((code.co_name, traceback.tb_lineno))
                if stage is not None:
                    self._stages[stage].failed_with = error
                break
            traceback = traceback.tb_next
        return error

    def _compiled(self, name: str, drop: str, emit: str) -> Any:
        names = [f"f{i}" for i in range(len(self._stages))]
        names += [f"copied{i}" for i, copier in enumerate(self._copiers) if copier is not None]
        names += ["unchanging", "truth"]
        parameters = ", ".join(f"{name}={name}" for name in names)
        if name == "fused":
            lines = [f"def {name}(x, {parameters}, dropped=dropped):"]
            depth = "    "
        else:
            lines = [f"def {name}(values, {parameters}):", "    for x in values:"]
            depth = "        "
        for i, stage in enumerate(self._stages):
            step = f"x = f{i}(x)"
            if type(stage) is FilterOperator:
                answer = f"(answer := f{i}(x))"
                step = f"if {answer} is not True and (answer is False or not truth(answer)): {drop}"
            lines.append(depth + step)
            self._stage_of_line[name, len(lines)] = i
            if self._copiers[i] is not None:
                lines.append(f"{depth}if type(x) not in unchanging: x = copied{i}(x)")
                self._stage_of_line[name, len(lines)] = i
        lines.append(depth + emit)
        scope: dict[str, Any] = {f"f{i}": stage.function for i, stage in enumerate(self._stages)}
        for i, copier in enumerate(self._copiers):
            if copier is not None:
                scope[f"copied{i}"] = copier.copied
        scope["unchanging"] = UNCHANGING_CLASSES
        scope["dropped"] = DROPPED
        scope["truth"] = truth
        scope["__name__"] = __name__  # which flame graphs show
        exec(compile("\n".join(lines), _FILE_NAME, "exec"), scope)
        return scope[name]


def _takes_many(output: Any) -> bool:
    """Return whether the next operator of the chain has its own way to process many records."""
    return type(output) in (ChainingOutput, CopyingChainingOutput) and (
        type(output.target).process_all is not StreamOperator.process_all
    )


def _is_python(stage: Any) -> bool:
    return isinstance(getattr(stage.function, "__func__", stage.function), FunctionType)
