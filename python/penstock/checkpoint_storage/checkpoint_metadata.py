"""Metadata of a completed checkpoint or savepoint: the content of its ``_metadata`` file."""

from __future__ import annotations

import msgspec

from penstock.checkpoint_storage.handles import (
    OperatorSubtaskState,  # noqa: TC001  msgspec looks the type up
)


class OperatorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in all its subtasks.

    Attributes:
        operator_id: The id, 16 bytes.
        parallelism: The number of its subtasks.
        max_parallelism: The number of its key groups.
        name: The name of the operator; empty if unknown.
        uid: The user's uid; empty if there is none.
        subtasks: State by subtask; subtasks without state are left out.
        finished_subtasks: Subtasks that had finished.
        coordinator: The state of its coordinator, if it has one.
        types: The declared types of its states, by kind and name; see `state_types`.
    """

    operator_id: bytes
    parallelism: int
    max_parallelism: int
    name: str = ""
    uid: str = ""
    subtasks: dict[int, OperatorSubtaskState] = {}
    finished_subtasks: frozenset[int] = frozenset()
    coordinator: bytes | None = None
    types: dict[str, str] = {}

    @property
    def has_state(self) -> bool:
        """Return whether the operator has any state."""
        return self.coordinator is not None or any(
            not subtask.is_empty for subtask in self.subtasks.values()
        )

    @property
    def has_keyed_state(self) -> bool:
        """Return whether its state belongs to key groups."""
        return any(s.managed_keyed or s.raw_keyed for s in self.subtasks.values())

    @property
    def is_fully_finished(self) -> bool:
        """Return whether all its subtasks had finished."""
        return len(self.finished_subtasks) == self.parallelism


class CheckpointMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completed checkpoint in its written form.

    Attributes:
        checkpoint_id: The id of the checkpoint.
        timestamp_ms: The time of its trigger, wall clock.
        operators: State by operator id.
        properties: The kind of the checkpoint, for people and for claims: "kind", "format" and so
            on.
    """

    checkpoint_id: int
    timestamp_ms: int
    operators: dict[bytes, OperatorState]
    properties: dict[str, str] = {}
