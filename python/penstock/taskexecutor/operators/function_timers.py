"""What the operators around process functions share: emitting results, and firing timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.output_tag import OutputTag
from penstock.datastream.time_domain import TimeDomain

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled import FunctionOperator
    from penstock.taskexecutor.task.operator_context import OperatorContext


class ResultEmitter:
    """Emits what process functions return: elements, and pairs of tag and value."""

    @staticmethod
    def emit(output: Any, result: Any, timestamp: int) -> None:
        """Emits an iterable; None emits nothing."""
        if result is None:
            return
        for element in result:
            if (
                isinstance(element, tuple)
                and len(element) == 2
                and isinstance(element[0], OutputTag)
            ):
                output.collect_side(element[0].tag_id, element[1], timestamp)
            else:
                output.collect(element, timestamp)


class FunctionTimers:
    """The timers of a keyed process function: they call its ``on_timer`` and emit what that gives.

    Attributes:
        service: The timers.
        element_context: What the function is called with; set by the operator.
    """

    def __init__(self, operator: FunctionOperator, context: OperatorContext) -> None:
        """Makes the timers of an operator, which may not be initialized yet."""
        self.service = context.timer_service(self)
        self.element_context: Any = None
        self._operator = operator
        self._on_timer = getattr(context.descriptor.user_function, "on_timer", None)

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """An event-time timer fired."""
        del key, namespace
        self._fire(timestamp, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """A processing-time timer fired."""
        del key, namespace
        self._fire(timestamp, TimeDomain.PROCESSING_TIME)

    def _fire(self, timestamp: int, domain: TimeDomain) -> None:
        """Calls the function; what it emits carries the timer's time, of either kind."""
        if self._on_timer is None:
            return
        context = self.element_context
        context.current_timestamp = timestamp
        context.domain = domain
        try:
            ResultEmitter.emit(self._operator.output, self._on_timer(timestamp, context), timestamp)
        except BaseException as error:
            self._operator.failed_with = error
            raise
        finally:
            context.domain = None
