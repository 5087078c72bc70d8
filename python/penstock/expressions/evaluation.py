"""Decides which functions are evaluated, and creates their replacements."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.common.options.pipeline import COLUMNS
from penstock.common.options.user_code import EVALUATE_FUNCTIONS
from penstock.expressions.bytecode import translate
from penstock.expressions.compilation import compile_into
from penstock.expressions.computed import computed_by
from penstock.expressions.procedures import Procedure, procedure_of
from penstock.expressions.program import LIMIT, NotComputedError, Program, ProgramBuilder
from penstock.runtime import runtime
from penstock.serialization.key_selection import field_of, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._native.evaluator.expression import Expression
    from penstock.columns.evaluation import ColumnProgram
    from penstock.expressions.bytecode import Types


@dataclass(frozen=True)
class Called:
    """Decision that a function is called for each record.

    Attributes:
        reason: The reason, worded to follow "it".
    """

    reason: str


class BatchCounts(Protocol):
    """Counts of evaluations over batches of columns.

    Attributes:
        batches: The batches that were computed by columns.
        given_up: The batches whose records were processed one by one.
        rows: The records of the computed batches.
    """

    batches: int
    given_up: int
    rows: int


class Stage(NamedTuple):
    """One of several functions that are applied one after another.

    Attributes:
        function: The function.
        is_filter: True if its result decides whether its argument is kept.
        types: The declared types of its arguments; None or missing for unknown ones.
    """

    function: Callable[..., Any]
    is_filter: bool = False
    types: Types = ()


class Evaluation:
    """Decides which functions of an operator are evaluated, and counts the evaluations.

    Attributes:
        expressions: The evaluated functions.
        column_programs: The functions evaluated over batches of columns.
    """

    def __init__(self, *, enabled: bool = True, in_columns: bool = True) -> None:
        """Create the decisions for one operator.

        Args:
            enabled: False if the job calls every function.
            in_columns: False if the job has no batches of columns.
        """
        self._enabled = enabled
        self._in_columns = in_columns
        self.expressions: list[Expression] = []
        self.column_programs: list[BatchCounts] = []

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Evaluation:
        """Create the evaluation that a job's configuration requests.

        Raises:
            ConfigurationError: The option has an invalid value.
        """
        return cls(
            enabled=EVALUATE_FUNCTIONS.read(configuration),
            in_columns=COLUMNS.read(configuration) == "auto",
        )

    @property
    def has_columns(self) -> bool:
        """Return whether records may travel as batches of columns."""
        return self._in_columns and runtime() == "native"

    def over_columns(self, program: Program | None) -> ColumnProgram | None:
        """Return the evaluator of a program over batches; None if batches become records."""
        if program is None or not self.has_columns:
            return None
        from penstock.columns.evaluation import ColumnProgram, unsupported_operation

        if unsupported_operation(program) is not None:
            return None
        found = ColumnProgram(program)
        self.column_programs.append(found)
        return found

    def decide(self, stages: Sequence[Stage], arguments: int = 1) -> Program | Called:
        """Return the program of functions applied in turn, or why they are called.

        Args:
            stages: The functions.
            arguments: The number of arguments of the first one, at least one; the others take one.
        """
        if (called := self._called_anyway()) is not None:
            return called
        builder = ProgramBuilder()
        values = [builder.register() for _ in range(arguments)]
        try:
            for stage in stages:
                for register, type_info in zip(values, stage.types, strict=False):
                    builder.declare(register, type_info)
                result = _translated(builder, stage.function, values)
                if stage.is_filter:
                    builder.emit("drop if false", left=result)
                else:
                    values = [result]
        except NotComputedError as error:
            return Called(str(error))
        builder.emit("return", left=values[0])
        program = builder.program(arguments)
        return Called(f"takes more than {LIMIT} steps") if program is None else program

    def decide_procedure(self, function: Any, types: Types = ()) -> Procedure | Called:
        """Return the computation and effects of a process function, or why it is called.

        Args:
            function: ``function(value, context)``, of keyed records or of their timers.
            types: The declared type of ``value``, if known.
        """
        if (called := self._called_anyway()) is not None:
            return called
        try:
            return procedure_of(function, types)
        except NotComputedError as error:
            return Called(str(error))

    def _called_anyway(self) -> Called | None:
        """Return why every function is called; None if it depends on the function."""
        if not self._enabled:
            return Called(f"is not analysed, as {EVALUATE_FUNCTIONS.key} is false")
        if runtime() != "native":
            return Called(f"is not analysed by the {runtime()} runtime")
        if sys.flags.bytes_warning:
            return Called("is not analysed, as the interpreter warns of bytes (-b)")
        return None

    def program(self, function: Any, arguments: int, types: Types = ()) -> Program | None:
        """Return the program of a function of ``arguments`` arguments; None if it is called."""
        return self.program_of_stages([Stage(function, types=types)], arguments)

    def program_of_stages(self, stages: Sequence[Stage], arguments: int = 1) -> Program | None:
        """Return the program of functions as `decide` does; None if they are called."""
        decided = self.decide(stages, arguments)
        return decided if isinstance(decided, Program) else None

    def without_call(
        self, function: Callable[..., Any], arguments: int, types: Types = ()
    ) -> Callable[..., Any]:
        """Return the fastest callable equivalent to ``function``.

        Args:
            function: Any callable.
            arguments: The usual number of positional arguments; other numbers are possible, but
                slow.
            types: The declared types of the arguments, as far as known.
        """
        expression = self.expression(function, arguments, types)
        return function if expression is None else expression.callable()

    def expression(
        self, function: Callable[..., Any], arguments: int, types: Types = ()
    ) -> Expression | None:
        """Return the evaluator of a function of ``arguments`` arguments; None if it is called."""
        program = self.program(function, arguments, types)
        if program is None:
            return None
        from penstock._native.evaluator.expression import Expression

        expression = Expression(function, program)
        self.expressions.append(expression)
        return expression

    def key_selection(
        self, selector: Callable[[Any], Any], element_type: Any = None
    ) -> tuple[Callable[[Any], Any], int]:
        """Return the callable for the key of a record, whose type may be declared.

        Returns:
            The selector or an equivalent without a call; and the position of the field that it
            reads if it does nothing else, else -1.
        """
        position = field_of(selector)
        if position is not None:
            return selector, position
        if part_of(selector) is not None:
            # Readers of keys access it without a call.
            return selector, -1
        return self.without_call(selector, 1, (element_type,)), -1


def _translated(builder: ProgramBuilder, function: Any, arguments: Sequence[int]) -> int:
    """Add a function to a program; return the register of its result."""
    expression = computed_by(function)
    if expression is None:
        return translate(builder, function, arguments)
    if expression.arguments != len(arguments):
        raise NotComputedError(f"cannot be called with {len(arguments)} positional arguments")
    return compile_into(builder, expression.node, arguments)
