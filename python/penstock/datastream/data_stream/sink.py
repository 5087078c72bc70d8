"""DataStreamSink: the end of a stream."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.calls.names import checked_name
from penstock.datastream.data_stream.settings import StreamSettings
from penstock.datastream.shipping import shipped
from penstock.errors import WrongArgumentError
from penstock.graph.transformations import (
    ChainingStrategy,
    CommitterTransformation,
    CompactorTransformation,
    GlobalCommitterTransformation,
    OneInputTransformation,
    SinkWriterTransformation,
)

if TYPE_CHECKING:
    from penstock.connectors.base import Sink
    from penstock.datastream.environment_execution import EnvironmentExecution
    from penstock.datastream.slot_sharing_group import SlotSharingGroup
    from penstock.graph.operators import OperatorDescriptor


@checks_arguments
class DataStreamSink(MissingMethods):
    """The end of a stream."""

    def __repr__(self) -> str:
        return f"<DataStreamSink {self._transformation.name!r}>"

    def __init__(
        self,
        environment: EnvironmentExecution,
        transformation: OneInputTransformation,
        committer: CommitterTransformation | None = None,
        compactor: CompactorTransformation | None = None,
    ) -> None:
        """Wrap a sink's operators; streams create sinks."""
        self._environment = environment
        self._transformation = transformation
        self._committer = committer
        self._compactor = compactor

    @property
    def transformation(self) -> OneInputTransformation:
        """Return the operator that receives the records."""
        return self._transformation

    def name(self, name: str) -> DataStreamSink:
        """Name the operator, for plans, logs and metrics.

        Raises:
            InvalidProgramError: The name is not a string, or cannot be sent.
        """
        checked_name("an operator", name)
        for transformation in self._operators():
            transformation.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Set the id of the operator's state, so that the state survives changes of the program.

        Raises:
            InvalidProgramError: The name cannot be stored.
        """
        self._transformation.uid = checked_name("an operator's state", uid)
        if self._committer is not None:
            self._committer.uid = f"Sink Committer: {uid}"
        if self._compactor is not None:
            self._compactor.uid = f"Sink Compactor: {uid}"
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set an alternative id of the operator's state: 32 hex digits."""
        self._transformation.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set the number of subtasks; a global committer always has one."""
        for transformation in self._operators():
            if not isinstance(transformation, GlobalCommitterTransformation):
                transformation.set_parallelism(parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Set a description of the operator, for plans.

        Raises:
            InvalidProgramError: The description cannot be sent.
        """
        self._transformation.description = checked_name("a description", description)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Run the operator in its own task."""
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Put the operator's subtasks into the slots of a group."""
        for transformation in self._operators():
            self._environment.assign_slot_sharing_group(transformation, slot_sharing_group)
        return self

    def set_co_location_group_key(self, key: str) -> DataStreamSink:
        """Place the writer's subtasks, as `DataStream.set_co_location_group_key` does.

        Raises:
            InvalidProgramError: The key is not a string, or cannot be sent.
        """
        self._transformation.co_location_key = checked_name("a co-location group", key)
        return self

    def _operators(self) -> list[OneInputTransformation]:
        behind = (self._compactor, self._committer)
        return [self._transformation, *(operator for operator in behind if operator is not None)]


def committing_sink(
    stream: StreamSettings,
    sink: Sink,
    writer_operator: OperatorDescriptor,
    committer_operator: OperatorDescriptor,
) -> DataStreamSink:
    """End a stream with a sink's writers, followed by its committers.

    Raises:
        WrongArgumentError: The sink's pre-commit topology does not return a stream.
    """
    from penstock.connectors.committer import SupportsPreCommitTopology

    environment = stream._environment
    parallelism = environment.get_parallelism()
    writer = SinkWriterTransformation(
        stream.transformation, "Sink", writer_operator, None, parallelism
    )
    committables: Any = stream._stream()._add(writer)
    if isinstance(sink, SupportsPreCommitTopology):
        given: Any = sink.add_pre_commit_topology(committables)
        if not isinstance(given, StreamSettings):
            raise WrongArgumentError(
                f"add_pre_commit_topology must return a DataStream, got {given!r}"
            )
        # A committer compares a summary with its committables: both must reach the same subtask.
        committables = given._stream().partition_custom(_committer_of, _writer_of)
    compactor = _compactor(committables, sink, parallelism)
    if compactor is not None:
        committables = stream._stream()._add(compactor)
    is_global = sink.has_global_committer()
    committer = (GlobalCommitterTransformation if is_global else CommitterTransformation)(
        committables.transformation,
        "Sink",
        shipped(committer_operator, "sink_to"),
        None,
        1 if is_global else parallelism,
    )
    committer.has_own_parallelism = is_global
    environment.add_operator(committer)
    return DataStreamSink(environment, writer, committer, compactor)


def _writer_of(message: Any) -> int:
    """Return the subtask of the writer that sent a message."""
    # The committer rejects messages without a subtask.
    subtask: int = getattr(message, "subtask_id", 0)
    return subtask


def _committer_of(writer: int, parallelism: int) -> int:
    return writer % parallelism


def _compactor(committables: Any, sink: Sink, parallelism: int) -> CompactorTransformation | None:
    operator = sink.compactor_operator()
    if operator is None:
        return None
    by_folder = committables.partition_custom(_subtask_of_folder, _folder_of)
    return CompactorTransformation(
        by_folder.transformation, "Sink", shipped(operator, "sink_to"), None, parallelism
    )


def _folder_of(committable: Any) -> str:
    """Return the folder of a file to be committed; files of a folder go to the same subtask."""
    from penstock.connectors.committer import CommittableWithLineage

    if not isinstance(committable, CommittableWithLineage):
        return ""
    folder: str = committable.committable.final_path.rpartition("/")[0]
    return folder


def _subtask_of_folder(folder: str, parallelism: int) -> int:
    return zlib.crc32(folder.encode()) % parallelism
