"""The handler of stream elements other than records."""

from __future__ import annotations


class ElementHandler:
    """Handles the stream elements other than records; here it ignores all of them."""

    def on_watermark(self, channel: int, timestamp: int) -> None:
        """Handle a watermark, in milliseconds."""

    def on_status(self, channel: int, idle: bool) -> None:
        """Handle a watermark status."""

    def on_latency_marker(
        self, channel: int, marked: int, op_lower: int, op_upper: int, subtask: int
    ) -> None:
        """Handle a latency marker; ``marked`` is its time in milliseconds."""

    def on_record_attributes(self, channel: int, is_backlog: bool) -> None:
        """Handle record attributes."""

    def on_internal_watermark(self, channel: int, timestamp: int, subpartition: int) -> None:
        """Handle the watermark of a subpartition."""

    def on_event(self, channel: int, event: bytes, data_type: int) -> None:
        """Handle a serialized event; `parse_event` reads it."""
