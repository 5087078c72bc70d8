"""The tail of an iteration: hands everything to the head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.network.codec import codec_for
from penstock.taskexecutor.iterations.feedback_channel import (
    FeedbackChannel,
    SuperstepEnd,
    close_channel,
    open_channel,
)
from penstock.taskexecutor.iterations.head import channel_key
from penstock.taskexecutor.loop import StreamOperator

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.taskexecutor.operator_context import OperatorContext


def create_iteration_tail(context: OperatorContext) -> IterationTail:
    """Takes what the head of ``arguments["iteration"]`` emits again."""
    return IterationTail(context.descriptor.arguments["group"], channel_key(context))


class IterationTail(StreamOperator):
    """Puts elements and the ends of supersteps into the channel; never waits."""

    def __init__(self, group: str, key: Hashable) -> None:
        """Creates the tail of the iteration whose channel is named ``key``."""
        super().__init__()
        self.group = group
        self.key = key
        self.channel: FeedbackChannel | None = None

    def open(self) -> None:
        """Connects to the head."""
        channel = open_channel(self.key)
        channel.spill_with(
            codec_for(cast("Any", next(iter(self.context.config.input_types), None))),
            self.context.environment.temp_directory,
        )
        self.channel = channel

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        assert self.channel is not None, "opened"
        self.channel.put(value, timestamp)

    def end_superstep(self, group: str, quiet_steps: int) -> None:
        """The marker came back; those of other groups end here."""
        if group == self.group and self.channel is not None:
            self.channel.end_superstep(SuperstepEnd(quiet_steps))

    def close(self) -> None:
        """Disconnects from the head."""
        if self.channel is not None:
            self.channel = None
            close_channel(self.key)
