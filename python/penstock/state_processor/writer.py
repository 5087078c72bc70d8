"""Writer of savepoints from data, as the initial state of a new job."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from penstock import network
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.storage import (
    CheckpointStorage,
    discard_location,
    publish_metadata,
)
from penstock.checkpoint_storage.streams import StateOutputStream
from penstock.datastream.process_configuration import process_configuration
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError
from penstock.graph.stream_graph_hasher import uid_to_operator_id
from penstock.serialization.key_types import key_type_of
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotWriter
from penstock.taskexecutor.state.backends.heap_keyed_state_backend import HeapKeyedStateBackend
from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
    serialised,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.checkpoint_storage.handles import OperatorSubtaskState
    from penstock.common.configuration import Configuration
    from penstock.common.typeinfo import TypeInformation

#: The id of the written checkpoint; those of the job follow.
_CHECKPOINT_ID: Final = 1


class SavepointWriter:
    """Collects states of operators, named by their uids, and writes them.

    All of them stay in memory until they are written.
    """

    def __init__(self, max_parallelism: int = 128) -> None:
        """Create an empty savepoint.

        Args:
            max_parallelism: The number of key groups: the maximum parallelism of the job.
        """
        if not 1 <= max_parallelism <= 1 << 15:
            raise InvalidProgramError(f"max_parallelism must be 1 to 32768, got {max_parallelism}")
        self._max_parallelism = max_parallelism
        self._operators: dict[str, _Operator] = {}

    def keyed_state(
        self,
        uid: str,
        descriptor: ValueStateDescriptor | ListStateDescriptor | MapStateDescriptor,
        entries: Any,
        key_type: TypeInformation | None = None,
    ) -> Self:
        """Add a keyed state.

        Args:
            uid: The uid of the operator that opens the state.
            descriptor: The descriptor that the operator uses.
            entries: A dictionary, or pairs of key and value (a value, a list or a dictionary), or
                a ``pyarrow.Table`` with the columns ``key`` and ``value``.
            key_type: The key type of the operator's ``key_by``.

        Raises:
            InvalidProgramError: The descriptor has another kind, or the key type differs from that
                of the operator's other states.
            SerializationError: A key or value does not fit its declared type.
        """
        operator = self._operator(uid)
        operator.declare_keys(uid, key_type)
        backend, keys = operator.keyed, operator.keys
        state: Any = backend.state(descriptor)
        for key, value in _pairs(entries):
            backend.current_key = keys.identity(key)
            if isinstance(descriptor, MapStateDescriptor):
                state.put_all(value)
            elif isinstance(descriptor, (ListStateDescriptor, ValueStateDescriptor)):
                state.update(value)
            else:
                raise InvalidProgramError(
                    f"state {descriptor.get_name()!r}: a savepoint can contain value, list and map "
                    f"states, not a {type(descriptor).__name__}"
                )
        return self

    def list_state(self, uid: str, descriptor: ListStateDescriptor, values: Iterable[Any]) -> Self:
        """Add a list without a key, which is redistributed over the subtasks."""
        self._operator(uid).lists.list_state(descriptor).add_all(values)
        return self

    def union_list_state(
        self, uid: str, descriptor: ListStateDescriptor, values: Iterable[Any]
    ) -> Self:
        """Add a list that every subtask restores as a whole."""
        self._operator(uid).lists.union_list_state(descriptor).add_all(values)
        return self

    def broadcast_state(self, uid: str, descriptor: MapStateDescriptor, items: Any) -> Self:
        """Add a broadcast state: a dictionary, or pairs of key and value."""
        self._operator(uid).lists.broadcast_state(descriptor).put_all(items)
        return self

    def write(self, directory: str, configuration: Configuration | None = None) -> str:
        """Write the savepoint into a new directory below ``directory``; return its path.

        Args:
            directory: A path or URL.
            configuration: Contains the options `s3.*`; None for those of the process, as in
                programs.

        Raises:
            InvalidProgramError: There is nothing to write.
            OSError: The savepoint cannot be written; no file remains.
        """
        if not self._operators:
            raise InvalidProgramError("a savepoint needs at least one state: add some first")
        files = FileSystems((configuration or process_configuration()).to_dict())
        storage = CheckpointStorage(secrets.token_bytes(16), files)
        location = storage.create_savepoint(absolute(directory))
        try:
            operators = {}
            for uid, operator in self._operators.items():
                operator_id = uid_to_operator_id(uid)
                state = operator.written(self._max_parallelism, location, files)
                operators[operator_id] = OperatorState(
                    operator_id,
                    1,
                    self._max_parallelism,
                    uid,
                    uid,
                    {0: state},
                    types=state.types,
                )
            properties = {"kind": "SAVEPOINT", "format": "CANONICAL"}
            metadata = CheckpointMetadata(
                _CHECKPOINT_ID, time.time_ns() // 1_000_000, operators, properties
            )
            return publish_metadata(location, metadata, files)
        except BaseException:
            discard_location(location, files)
            raise

    def _operator(self, uid: str) -> _Operator:
        return self._operators.setdefault(uid, _Operator())


class _Operator:
    """The states of one operator."""

    def __init__(self) -> None:
        self.keyed = HeapKeyedStateBackend()
        self.lists = OperatorStateBackend()
        self.key_type_text: str | None = None
        self.key_kind: str | None = None
        self.keys: Any = None

    def declare_keys(self, uid: str, key_type: TypeInformation | None) -> None:
        text = TypeSerializer(key_type).snapshot_configuration().write()
        if self.key_type_text not in (None, text):
            raise InvalidProgramError(f"the keyed states of operator {uid!r} have two key types")
        if self.key_type_text is None:
            known = key_type_of(key_type)
            self.key_type_text, self.key_kind = text, known.kind
            self.keys = network.KeyReader(lambda key: key, -1, known.plain, known.convert)

    def written(
        self, max_parallelism: int, location: str, files: FileSystems
    ) -> OperatorSubtaskState:
        types = {**self.lists.types.texts(), **self.keyed.types.texts()}
        if self.key_type_text is not None:
            types["key"] = self.key_type_text
        snapshot = OperatorSnapshot(
            _CHECKPOINT_ID,
            types=types,
        )
        grouping = KeyGrouping(self.key_kind, max_parallelism, range(max_parallelism))
        running = RunningSnapshot(
            snapshot,
            self.keyed.open_snapshot(grouping, _CHECKPOINT_ID),
            self.lists.open_snapshot(),
        )
        fs = files.of(location)
        writer = OperatorSnapshotWriter(lambda: StateOutputStream(fs, location))
        return writer.write(serialised(running))


def _pairs(entries: Any) -> Iterable[tuple[Any, Any]]:
    columns = getattr(entries, "column_names", None)
    if isinstance(entries, Mapping):
        return entries.items()
    if columns is None:
        found: Iterable[tuple[Any, Any]] = entries
        return found
    if not {"key", "value"} <= set(columns):
        raise InvalidProgramError(
            f"a table of entries needs the columns key and value, it has {', '.join(columns)}"
        )
    return zip(entries["key"].to_pylist(), entries["value"].to_pylist(), strict=True)
