"""Output of an operator under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.taskexecutor.compiled import MIN_TIMESTAMP, Output

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag
    from penstock.taskexecutor.compiled import ValueCopier


class CollectedRecord(NamedTuple):
    """A record and its timestamp in ms; None if it has none."""

    value: Any
    timestamp: int | None


class TestOutput(Output):
    """Stores all output in the order of emission.

    Attributes:
        records: The main records.
        watermarks: The watermarks, in ms.
        statuses: Changes of idleness: True for idle.
        events: Records and watermarks together, as ("record", value, timestamp) and
            ("watermark", timestamp).
    """

    __test__ = False  # not a test, despite its name

    def __init__(self, copier: ValueCopier | None = None) -> None:
        """Create an empty output; ``copier`` copies emitted values, None keeps the originals."""
        self._copier = copier
        self.records: list[CollectedRecord] = []
        self.watermarks: list[int] = []
        self.statuses: list[bool] = []
        self.events: list[tuple[Any, ...]] = []
        self._sides: dict[str, list[CollectedRecord]] = {}

    def collect(self, value: Any, timestamp: int) -> None:
        """Store a record."""
        record = self._record(value, timestamp)
        self.records.append(record)
        self.events.append(("record", *record))

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Store a record of a side output."""
        self._sides.setdefault(tag_id, []).append(self._record(value, timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        """Store a watermark."""
        self.watermarks.append(timestamp)
        self.events.append(("watermark", timestamp))

    def emit_status(self, idle: bool) -> None:
        """Store a change of idleness."""
        self.statuses.append(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Drop the marker."""

    def side_output(self, tag: OutputTag | str) -> list[CollectedRecord]:
        """Return the records of a side output."""
        tag_id = tag if isinstance(tag, str) else tag.tag_id
        return list(self._sides.get(tag_id, ()))

    def clear(self) -> None:
        """Remove everything."""
        for kept in (self.records, self.watermarks, self.statuses, self.events):
            kept.clear()
        self._sides.clear()

    def _record(self, value: Any, timestamp: int) -> CollectedRecord:
        if self._copier is not None:
            value = self._copier.copied(value)
        return CollectedRecord(value, None if timestamp == MIN_TIMESTAMP else timestamp)
