"""Metadata of a completed checkpoint or savepoint: the content of its ``_metadata`` file."""

from __future__ import annotations

import msgspec

from penstock.checkpoint_storage.handles import (
    OperatorSubtaskState,  # noqa: TC001  msgspec looks the type up
)


class OperatorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in all its subtasks.

    Attributes:
        operator_id: 16 bytes.
        parallelism: Subtasks that it had.
        max_parallelism: Key groups that it had.
        name: Of the operator; empty when unknown.
        uid: Given by the user; empty when there is none.
        subtasks: State by subtask; those without any are left out.
        finished_subtasks: Subtasks that had come to their end.
        coordinator: What its coordinator reported, if it has one.
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
        """Return whether anything of it would be lost with it."""
        return self.coordinator is not None or any(
            not subtask.is_empty for subtask in self.subtasks.values()
        )

    @property
    def has_keyed_state(self) -> bool:
        """Return whether its state belongs to key groups."""
        return any(s.managed_keyed or s.raw_keyed for s in self.subtasks.values())

    @property
    def is_fully_finished(self) -> bool:
        """Return whether all its subtasks had come to their end."""
        return len(self.finished_subtasks) == self.parallelism


class CheckpointMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completed checkpoint as it is written.

    Attributes:
        checkpoint_id: Its number.
        timestamp_ms: When it was triggered, wall clock.
        operators: State by operator id.
        properties: What it was taken as, for people and for claims: "kind", "format" and so on.
    """

    checkpoint_id: int
    timestamp_ms: int
    operators: dict[bytes, OperatorState]
    properties: dict[str, str] = {}
