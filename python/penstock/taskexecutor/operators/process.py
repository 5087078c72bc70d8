"""ProcessFunction and KeyedProcessFunction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.output_tag import OutputTag
from penstock.errors import InvalidProgramError
from penstock.expressions.evaluation import Called
from penstock.taskexecutor.compiled import (
    MIN_TIMESTAMP,
    ElementContext,
    KeyedProcessOperator,
    ProcessOperator,
    StreamOperator,
)
from penstock.taskexecutor.operators.function_timers import function_timers
from penstock.taskexecutor.time.timer_service import TimeOnlyService

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._native.operators.procedure import Procedure
    from penstock.expressions.bytecode import Types
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_process(context: OperatorContext, descriptor: operators.Process) -> StreamOperator:
    """Create the operator of a ProcessFunction, on a stream with or without keys."""
    if context.is_keyed:
        return _keyed(context, descriptor)
    return PlainProcessOperator(context, descriptor.function)


def create_keyed_process(
    context: OperatorContext, descriptor: operators.KeyedProcess
) -> StreamOperator:
    """Create the operator of a KeyedProcessFunction."""
    return _keyed(context, descriptor)


def _keyed(
    context: OperatorContext, descriptor: operators.Process | operators.KeyedProcess
) -> StreamOperator:
    keys = context.key_reader()
    if keys is None:
        msg = f"{context.name!r} is a keyed process function, but its input is not keyed"
        raise InvalidProgramError(msg)
    function = descriptor.function
    operator = KeyedProcessOperator(
        function, _process_element(function), OutputTag, keys, context.keyed_state
    )
    use_timers_and_procedures(context, operator)
    return operator


def use_timers_and_procedures(context: OperatorContext, operator: KeyedProcessOperator) -> None:
    """Let an operator have timers, and replace calls of its function where that is possible."""
    operator.use_timers(function_timers(operator, context))
    operator.use_procedures(
        _procedure(context, operator, operator.function, context.config.input_types[:1]),
        _procedure(context, operator, operator.timers.on_timer, ()),
    )


def _procedure(
    context: OperatorContext, operator: KeyedProcessOperator, function: Any, types: Types
) -> Procedure | None:
    """Return a procedure that replaces calls of a function; None if the function is called."""
    decided = context.evaluation.decide_procedure(function, types)
    if isinstance(decided, Called):
        return None
    from penstock._native.operators.procedure import Procedure

    procedure = Procedure(function, decided, operator.timers.service, operator.state)
    context.evaluation.expressions.append(procedure.expression)
    return procedure


class PlainProcessOperator(ProcessOperator):
    """Runs a ProcessFunction on a stream without keys."""

    def __init__(self, context: OperatorContext, function: object) -> None:
        """Create the operator."""
        self.watermark = MIN_TIMESTAMP
        timers = TimeOnlyService(context.processing_time.now, lambda: self.watermark)
        super().__init__(function, _process_element(function), ElementContext(timers), OutputTag)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        self.watermark = timestamp
        self.output.emit_watermark(timestamp)


def _process_element(function: object) -> Callable[..., object]:
    process_element: Callable[..., object] | None = getattr(function, "process_element", None)
    if process_element is None:
        msg = f"process() takes a function object with process_element, not {function!r}"
        raise InvalidProgramError(msg)
    return process_element
