"""Reader of the states of a savepoint or checkpoint."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common.calls.names import nearest_hint
from penstock.common.options.state import BACKEND, check_rocksdb
from penstock.datastream.process_configuration import process_configuration
from penstock.errors import InvalidProgramError
from penstock.serialization.class_reference import register
from penstock.serialization.former_layouts import unknown_classes_read_as_rows
from penstock.serialization.type_serializer import TypeSerializerSnapshot
from penstock.state_processor.arrow import table_of
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.state.snapshots.log_merging import merged, with_log
from penstock.taskexecutor.state.snapshots.snapshot_contents import entries_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
    from penstock.common.configuration import Configuration
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot_contents import KeyedStates


class Savepoint:
    """The content of a savepoint or checkpoint.

    An operator is named by its uid, by the hexadecimal digits of its id, or by its name if that is
    unique.

    Attributes:
        metadata: Its metadata.
        location: Its directory.
    """

    def __init__(self, metadata: CheckpointMetadata, location: str, files: FileSystems) -> None:
        """Wrap metadata; call `read` instead."""
        self._files = files
        self.metadata = metadata
        self.location = location

    @staticmethod
    def read(
        path: str, classes: Iterable[type] = (), configuration: Configuration | None = None
    ) -> Savepoint:
        """Open the savepoint or checkpoint at a path.

        Args:
            path: Its directory, or the ``_metadata`` file in it.
            classes: Classes of values that cannot be imported by name, such as those of the
                program's main module.  Records of classes that are neither given nor importable
                are read as `Row` objects with their fields.
            configuration: Contains the options `s3.*`; None for those of the process, as in
                programs.

        Raises:
            CheckpointStorageError: There is no checkpoint, or it cannot be read.
        """
        for cls in classes:
            register(cls)
        files = FileSystems((configuration or process_configuration()).to_dict())
        return Savepoint(*load_metadata(absolute(path), files), files)

    def states(self) -> pa.Table:
        """Return all states: ``uid``, ``operator``, ``id``, ``kind``, ``state``, and ``type``."""
        rows = [
            (operator.uid, operator.name, operator.operator_id.hex(), kind, name, type_)
            for operator in self.metadata.operators.values()
            for kind, name, type_ in sorted(self._states_of(operator))
        ]
        names = ("uid", "operator", "id", "kind", "state", "type")
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return table_of(dict(zip(names, columns, strict=True)), self.location)

    def keyed_state(self, operator: str, state: str) -> pa.Table:
        """Return a keyed state: ``key_group``, ``key``, ``namespace`` and ``value``.

        Raises:
            InvalidProgramError: There is no such operator or state; the message names the others.
            SerializationError: A column has no common Arrow type.
        """
        rows = list(self.keyed_state_entries(operator, state))
        names = ("key_group", "key", "namespace", "value")
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return table_of(dict(zip(names, columns, strict=True)), f"keyed_state {state!r}")

    def keyed_state_names(self, operator: str) -> set[str]:
        """Return the names of the keyed states of an operator.

        Raises:
            InvalidProgramError: There is no such operator; the message names the others.
        """
        states = self._states_of(self._operator(operator))
        return {name for kind, name, _ in states if kind == "keyed"}

    def keyed_state_entries(self, operator: str, state: str) -> Iterator[tuple[int, Any, Any, Any]]:
        """Yield the entries of `keyed_state` as Python values."""
        found = self._operator(operator)
        known = self.keyed_state_names(operator)
        if state not in known:
            raise _unknown("keyed state", state, found, known)
        for snapshot in self._snapshots(found):
            yield from _entries(snapshot.keyed, state)

    def timers(self, operator: str) -> pa.Table:
        """Return timers: ``service``, ``domain``, ``time``, ``key_group``, ``key``, ``namespace``.

        Times are in ms.  Services are numbered in the order in which the operator creates them; the
        domain is ``event`` or ``processing``.
        """
        rows = [
            (int(name.split("/")[0]), name.split("/")[1], time, group, key, namespace)
            for snapshot in self._snapshots(self._operator(operator))
            for name in snapshot.timers
            for group, key, time, namespace in _entries(snapshot.timers, name)
        ]
        names = ("service", "domain", "time", "key_group", "key", "namespace")
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return table_of(dict(zip(names, columns, strict=True)), "timers")

    def list_state(self, operator: str, state: str) -> pa.Table:
        """Return a list or union list: ``subtask`` and ``value``.

        Raises:
            InvalidProgramError: There is no such operator or state; the message names the others.
            SerializationError: A column has no common Arrow type.
        """
        rows = list(self.list_state_entries(operator, state))
        columns = {"subtask": [row[0] for row in rows], "value": [row[1] for row in rows]}
        return table_of(columns, f"list_state {state!r}")

    def list_state_entries(self, operator: str, state: str) -> Iterator[tuple[int, Any]]:
        """Yield the entries of `list_state` as Python values."""
        found = self._operator(operator)
        known = {name for kind, name, _ in self._states_of(found) if kind in ("split", "union")}
        if state not in known:
            raise _unknown("list state", state, found, known)
        for subtask, snapshot in zip(sorted(found.subtasks), self._snapshots(found), strict=True):
            for lists in (snapshot.lists, snapshot.union_lists):
                with unknown_classes_read_as_rows():
                    values = list(lists.get(state, ()))
                for value in values:
                    yield subtask, value

    def broadcast_state(self, operator: str, state: str) -> pa.Table:
        """Return a broadcast state of the first subtask: ``key`` and ``value``.

        Raises:
            InvalidProgramError: There is no such operator or state; the message names the others.
            SerializationError: A column has no common Arrow type.
        """
        items = list(self.broadcast_state_entries(operator, state))
        columns = {"key": [key for key, _ in items], "value": [value for _, value in items]}
        return table_of(columns, f"broadcast_state {state!r}")

    def broadcast_state_entries(self, operator: str, state: str) -> Iterator[tuple[Any, Any]]:
        """Yield the entries of `broadcast_state` as Python values."""
        found = self._operator(operator)
        known = {name for kind, name, _ in self._states_of(found) if kind == "broadcast"}
        if state not in known:
            raise _unknown("broadcast state", state, found, known)
        for snapshot in self._snapshots(found):
            if state in snapshot.broadcast:
                with unknown_classes_read_as_rows():
                    contents = list(snapshot.broadcast[state])
                for items in contents:
                    yield from items
                return

    # ---- inside ----------------------------------------------------------------------------

    def _operator(self, wanted: str) -> OperatorState:
        operators = list(self.metadata.operators.values())
        for matches in (
            [o for o in operators if o.uid == wanted],
            [o for o in operators if o.operator_id.hex() == wanted],
            [o for o in operators if o.name == wanted],
        ):
            if len(matches) == 1:
                return matches[0]
        known = [o.uid or o.name or o.operator_id.hex() for o in operators]
        raise InvalidProgramError(
            f"{self.location} has no operator {wanted!r}, or several with that name; it has "
            + ", ".join(map(repr, known))
            + nearest_hint(wanted, known)
        )

    def _snapshots(self, operator: OperatorState) -> Iterator[OperatorSnapshot]:
        """Yield the snapshots of the subtasks in order, read on demand."""
        for _, subtask in sorted(operator.subtasks.items()):
            reader = OperatorSnapshotReader(range(operator.max_parallelism), self._files)
            snapshot = with_log(reader.read(self.metadata.checkpoint_id, subtask))
            if not snapshot.files:
                yield snapshot
                continue
            # Here only, since it needs a package.
            check_rocksdb({BACKEND.key: "rocksdb"})
            from penstock.taskexecutor.rocksdb.restoring import states_of_files

            with tempfile.TemporaryDirectory(prefix="penstock-savepoint-") as folder:
                keyed: KeyedStates = {}
                for number, files in enumerate(snapshot.files):
                    of_files = states_of_files(
                        files, snapshot.log, f"{folder}/{number}", files.key_groups
                    )
                    keyed |= merged(of_files, [segment.keyed for segment in snapshot.log])
                yield replace(snapshot, keyed=keyed)

    def _states_of(self, operator: OperatorState) -> set[tuple[str, str, str]]:
        """Return kind, name and declared type of the states, including undeclared ones."""
        found = {
            (kind, name): str(TypeSerializerSnapshot.read(text))
            for key, text in operator.types.items()
            for kind, separator, name in [key.partition(":")]
            if separator
        }
        for subtask in operator.subtasks.values():
            for handle in subtask.managed_operator:
                for key in handle.states:
                    kind, _, name = key.partition(":")
                    found.setdefault((kind, name), "")
        if operator.has_keyed_state:
            for snapshot in self._snapshots(operator):
                for name in snapshot.keyed:
                    found.setdefault(("keyed", name), "")
        return {(kind, name, type_) for (kind, name), type_ in found.items()}


def _entries(states: KeyedStates, name: str) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield key group, key, namespace and value of each entry of a state."""
    if name not in states:
        return
    for group, data in sorted(states[name][1].items()):
        with unknown_classes_read_as_rows():
            entries = list(entries_of(data))
        for namespace, key, value in entries:
            yield group, key, namespace, value


def _unknown(what: str, name: str, operator: OperatorState, known: set[str]) -> InvalidProgramError:
    there = ", ".join(map(repr, sorted(known))) or "none"
    return InvalidProgramError(
        f"operator {operator.uid or operator.name!r} has no {what} {name!r}; it has {there}"
        + nearest_hint(name, known)
    )
