"""Watermark alignment: sources of a group wait for the slowest of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.rpc import messages

if TYPE_CHECKING:
    from penstock.jobmaster.sources.source_coordinator import Reader

_MAX_TIMESTAMP: Final = 2**63 - 1


@dataclass
class _Group:
    max_drift_ms: int
    watermarks: dict[tuple[bytes, int], int] = field(default_factory=dict)
    readers: dict[tuple[bytes, int], Reader] = field(default_factory=dict)
    announced: int | None = None


class AlignmentGroups:
    """Stores the watermarks that readers report, and sends readers their limits."""

    def __init__(self) -> None:
        """Create an empty set of groups."""
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[bytes, _Group] = {}

    def add(self, operator_id: bytes, group: str, max_drift_ms: int) -> None:
        """Add a source to a group; its subtasks hold the others back once they report.

        Args:
            operator_id: The operator of the source.
            group: The name of the group.
            max_drift_ms: How far a reader may be ahead of the slowest; the smallest of the
                group's sources counts.
        """
        found = self._groups.setdefault(group, _Group(max_drift_ms))
        found.max_drift_ms = min(found.max_drift_ms, max_drift_ms)
        self._group_of[operator_id] = found

    def reported(self, operator_id: bytes, subtask: int, reader: Reader, watermark: int) -> None:
        """Store a reader's watermark; send all readers of the group the new limit."""
        group = self._group_of.get(operator_id)
        if group is None:
            return
        key = (operator_id, subtask)
        is_new = group.readers.get(key) != reader
        group.readers[key] = reader
        group.watermarks[key] = watermark
        limit = min(min(group.watermarks.values()) + group.max_drift_ms, _MAX_TIMESTAMP)
        if limit != group.announced:
            group.announced = limit
            for (other_id, _), other in group.readers.items():
                _tell(other, other_id, limit)
        elif is_new:
            _tell(reader, operator_id, limit)

    def forget(self, operator_id: bytes, subtask: int) -> None:
        """Forget a reader that has ended and will restart."""
        group = self._group_of.get(operator_id)
        if group is not None:
            group.watermarks.pop((operator_id, subtask), None)
            group.readers.pop((operator_id, subtask), None)

    def reset(self) -> None:
        """Forget all readers: all have ended, and others may follow."""
        for group in self._groups.values():
            group.watermarks.clear()
            group.readers.clear()


def _tell(reader: Reader, operator_id: bytes, limit: int) -> None:
    reader.send(messages.WatermarkAlignment(reader.attempt_id, operator_id, limit))
