"""SinkFunction, and the sink that drops everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.source_sink import SinkFunction
from penstock.datastream.functions.two_phase_commit import (
    CommittingSinkFunction,
    TwoPhaseCommitSinkFunction,
)
from penstock.taskexecutor.checkpointing.final_checkpoint import awaits_final_checkpoint
from penstock.taskexecutor.compiled import (
    MIN_TIMESTAMP,
    DiscardingSink,
    FunctionOperator,
    FunctionSink,
    StreamOperator,
)

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_sink_function(
    context: OperatorContext, descriptor: operators.FunctionSink
) -> StreamOperator:
    """Create the sink, which calls ``invoke(value, context)``, or a plain callable, per record."""
    function = descriptor.function
    if isinstance(function, TwoPhaseCommitSinkFunction):
        return TransactionSink(context, function)
    if hasattr(function, "invoke"):
        return InvokingSink(context, function)
    return FunctionSink(function, function)


def create_discarding_sink(
    context: OperatorContext, descriptor: operators.DiscardingSink
) -> StreamOperator:
    """Create a sink that drops every record."""
    del context, descriptor
    return DiscardingSink()


class SinkContext(SinkFunction.Context):
    """Context of a sink function for the current record."""

    def __init__(self, context: OperatorContext) -> None:
        """Create the context."""
        self._now = context.processing_time.now
        self.element_timestamp = MIN_TIMESTAMP
        self.watermark = MIN_TIMESTAMP

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self._now()

    def current_watermark(self) -> int:
        """Return the current watermark, in ms."""
        return self.watermark

    def timestamp(self) -> int | None:
        """Return the record's timestamp in ms, or None."""
        return None if self.element_timestamp == MIN_TIMESTAMP else self.element_timestamp


class InvokingSink(FunctionOperator):
    """Calls a SinkFunction with every record and its context."""

    def __init__(self, context: OperatorContext, function: Any) -> None:
        """Create the operator."""
        super().__init__(function, function.invoke)
        self.sink_context = SinkContext(context)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        self.sink_context.element_timestamp = timestamp
        self.function(value, self.sink_context)

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.sink_context.watermark = timestamp
        self.output.emit_watermark(timestamp)

    def finish(self) -> None:
        """Finish the function, and commit the rest if no checkpoint will."""
        function = self.user_function
        finish = getattr(function, "finish", None)
        if finish is not None:
            finish()
        if isinstance(function, CommittingSinkFunction) and not awaits_final_checkpoint(
            self.context.environment.configuration
        ):
            function.commit_rest()


class TransactionSink(InvokingSink):
    """Passes records to a TwoPhaseCommitSinkFunction, each with the open transaction."""

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        self.sink_context.element_timestamp = timestamp
        transaction = self.user_function.current_transaction()
        self.function(transaction, value, self.sink_context)
