"""DataStreamSink: the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.argument_kinds import checks_arguments
from penstock.datastream.missing_methods import MissingMethods
from penstock.graph.transformations import ChainingStrategy, SinkTransformation

if TYPE_CHECKING:
    from penstock.datastream.slot_sharing_group import SlotSharingGroup
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


@checks_arguments
class DataStreamSink(MissingMethods):
    """The end of a stream."""

    def __repr__(self) -> str:
        return f"<DataStreamSink {self._transformation.name!r}>"

    def __init__(
        self, environment: StreamExecutionEnvironment, transformation: SinkTransformation
    ) -> None:
        """Wraps a transformation; sinks are made by streams."""
        self._environment = environment
        self._transformation = transformation

    @property
    def transformation(self) -> SinkTransformation:
        """The operator."""
        return self._transformation

    def name(self, name: str) -> DataStreamSink:
        """Names the operator, for plans, logs and metrics."""
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Names the operator's state, so that it survives changes of the program."""
        self._transformation.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Sets another id under which the operator's state may be found: 32 hex digits."""
        self._transformation.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Sets the number of subtasks."""
        self._transformation.set_parallelism(parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Describes the operator, for plans."""
        self._transformation.description = description
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Runs the operator in a task of its own."""
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Puts the operator's subtasks into the slots of a group."""
        self._environment.assign_slot_sharing_group(self._transformation, slot_sharing_group)
        return self
