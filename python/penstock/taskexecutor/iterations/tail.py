"""The tail of an iteration: feeds all records back to the head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import Types
from penstock.datastream.state import ListStateDescriptor
from penstock.serialization.type_serializer import TypeSerializer
from penstock.serialization.versioned_form import VersionedForm
from penstock.taskexecutor.compiled import StreamOperator
from penstock.taskexecutor.iterations.feedback_channel import (
    FeedbackChannel,
    SuperstepEnd,
    close_channel,
    open_channel,
)
from penstock.taskexecutor.iterations.head import channel_key

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.datastream.functions.checkpointed import StateSnapshotContext
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


_FED_BACK: Final = ListStateDescriptor("feedback", Types.PICKLED_BYTE_ARRAY())

_FORM: Final = VersionedForm("an element of an iteration", ("timestamp", "data"))


def create_iteration_tail(
    context: OperatorContext, descriptor: operators.IterationTail
) -> IterationTail:
    """Create the tail, which feeds records back to the head of the same iteration."""
    return IterationTail(descriptor.group, channel_key(context, descriptor.iteration))


class IterationTail(StreamOperator):
    """Puts records and the ends of supersteps into the channel; it never waits."""

    def __init__(self, group: str, key: Hashable) -> None:
        """Create the tail of the iteration with the channel ``key``."""
        super().__init__()
        self.group = group
        self.key = key
        self.channel: FeedbackChannel | None = None

    def open(self) -> None:
        """Open the channel to the head, and feed back the records restored from a snapshot."""
        serializer = TypeSerializer[Any]()
        self.channel = open_channel(self.key)
        self.channel.spill_with(serializer, self.context.environment.temp_directory)
        restored = self.context.operator_state.list_state(_FED_BACK).get()
        for timestamp, data in map(_FORM.read, restored):
            self.channel.put(serializer.deserialize(data), timestamp)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the records in the feedback once the barrier has passed the loop."""
        assert self.channel is not None, "opened"
        found = self.channel.end_snapshot(context.get_checkpoint_id())
        self.context.operator_state.list_state(_FED_BACK).update(
            [_FORM.write(*element) for element in found]
        )

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        assert self.channel is not None, "opened"
        self.channel.put(value, timestamp)

    def end_superstep(self, group: str, quiet_steps: int) -> None:
        """Add the end of a superstep whose marker has returned; ignore other groups' markers."""
        if group == self.group and self.channel is not None:
            self.channel.end_superstep(SuperstepEnd(quiet_steps))

    def close(self) -> None:
        """Close the channel to the head."""
        if self.channel is not None:
            self.channel = None
            close_channel(self.key)
