"""Decides which functions are evaluated, and makes what is called in their place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.options.user_code import EVALUATE_FUNCTIONS
from penstock.expressions.bytecode import translate
from penstock.expressions.compilation import compile_into
from penstock.expressions.computed import computed_by
from penstock.expressions.procedures import Procedure, procedure_of
from penstock.expressions.program import LIMIT, NotComputedError, Program, ProgramBuilder
from penstock.network import runtime
from penstock.serialization.key_selection import field_of, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._native.expression import Expression


@dataclass(frozen=True)
class Called:
    """That a function is called for each element.

    Attributes:
        reason: Why it is not evaluated, as what follows "it".
    """

    reason: str


class Evaluation:
    """What a job's settings and this process say about functions that only compute."""

    def __init__(self, *, enabled: bool = True) -> None:
        """Says whether functions are evaluated at all; where they can be."""
        self._enabled = enabled

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Evaluation:
        """The evaluation that a job's configuration asks for.

        Raises:
            ConfigurationError: The option has no such value.
        """
        return cls(enabled=EVALUATE_FUNCTIONS.read(configuration))

    def decide(self, stages: Sequence[tuple[Any, bool]], arguments: int = 1) -> Program | Called:
        """What functions compute one after the other, or why they are called.

        Args:
            stages: Each function, and whether it is a filter: it then passes on what it is given,
                or drops it.
            arguments: How many the first is given, at least one; those behind it are given one.
        """
        if (called := self._called_anyway()) is not None:
            return called
        builder = ProgramBuilder()
        values = [builder.register() for _ in range(arguments)]
        try:
            for function, is_filter in stages:
                result = _translated(builder, function, values)
                if is_filter:
                    builder.emit("drop if false", left=result)
                else:
                    values = [result]
        except NotComputedError as error:
            return Called(str(error))
        builder.emit("return", left=values[0])
        program = builder.program(arguments)
        return Called(f"takes more than {LIMIT} steps") if program is None else program

    def decide_procedure(self, function: Any) -> Procedure | Called:
        """What a process function computes and does, or why it is called.

        Args:
            function: ``function(value, context)``, of keyed elements or of their timers.
        """
        if (called := self._called_anyway()) is not None:
            return called
        try:
            return procedure_of(function)
        except NotComputedError as error:
            return Called(str(error))

    def _called_anyway(self) -> Called | None:
        """Why any function is called; None if it depends on the function."""
        if not self._enabled:
            return Called(f"is not looked at, as {EVALUATE_FUNCTIONS.key} is false")
        if runtime() != "native":
            return Called(f"is not looked at by the {runtime()} runtime")
        if sys.flags.bytes_warning:
            return Called("is not looked at, as the interpreter warns of bytes (-b)")
        return None

    def program(self, function: Any, arguments: int) -> Program | None:
        """What a function computes of so many positional arguments; None if it is called."""
        return self.program_of_stages([(function, False)], arguments)

    def program_of_stages(
        self, stages: Sequence[tuple[Any, bool]], arguments: int = 1
    ) -> Program | None:
        """What functions compute one after the other, as for `decide`; None if they are called."""
        decided = self.decide(stages, arguments)
        return decided if isinstance(decided, Program) else None

    def without_call(self, function: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """What does the same as ``function`` by the fastest way.

        Args:
            function: Any callable.
            arguments: With how many positional arguments it is called; others are possible, but
                slow.
        """
        expression = self.expression(function, arguments)
        return function if expression is None else expression.callable()

    def expression(self, function: Callable[..., Any], arguments: int) -> Expression | None:
        """What computes a function of so many positional arguments; None if it is called."""
        program = self.program(function, arguments)
        if program is None:
            return None
        from penstock._native.expression import Expression

        return Expression(function, program)

    def key_selection(self, selector: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], int]:
        """What to call for the key of an element.

        Returns:
            The selector, or what does the same without a call; and the position of the field that
            it takes if it does nothing else, else -1.
        """
        position = field_of(selector)
        if position is not None:
            return selector, position
        if part_of(selector) is not None:
            # Who reads keys takes it without a call.
            return selector, -1
        return self.without_call(selector, 1), -1


def _translated(builder: ProgramBuilder, function: Any, arguments: Sequence[int]) -> int:
    """Adds what a function computes to a program; returns the register of its result."""
    expression = computed_by(function)
    if expression is None:
        return translate(builder, function, arguments)
    if expression.arguments != len(arguments):
        raise NotComputedError(f"cannot be called with {len(arguments)} positional arguments")
    return compile_into(builder, expression.node, arguments)
