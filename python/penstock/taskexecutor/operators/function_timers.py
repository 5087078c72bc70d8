"""Common parts of operators around process functions: emitting results, firing timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.output_tag import OutputTag
from penstock.datastream.time_domain import TimeDomain
from penstock.taskexecutor.compiled import FunctionTimers, emit_results

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled import Output, StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class ResultEmitter:
    """Emits results of process functions: records, and pairs of tag and value."""

    @staticmethod
    def emit(output: Output, result: object, timestamp: int) -> None:
        """Emit the results of an iterable; None has none."""
        if result is not None:
            emit_results(output, result, timestamp, OutputTag)


def function_timers(operator: StreamOperator, context: OperatorContext) -> FunctionTimers:
    """Create the timers of an operator, which may not yet be initialised."""
    on_timer = getattr(context.descriptor.user_function, "on_timer", None)
    timers = FunctionTimers(
        operator, on_timer, OutputTag, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    )
    timers.service = context.timer_service(timers)
    return timers
