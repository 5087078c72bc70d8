# cython: annotation_typing=False, boundscheck=True
# The C types come from time_operators.pxd; the annotations below are for readers and mypy.
"""Timestamps of records.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MIN_TIMESTAMP, StreamOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._native.records.stamped_records import StampedRecords
    from penstock.columns.column_batch import ColumnBatch


class TimestampsOperator(StreamOperator):
    """Assigns timestamps to records; the subclass handles watermarks.

    Attributes:
        extract: ``extract(element, timestamp)`` returns the new timestamp; None keeps it.
        expression: Computes the new timestamp instead of ``extract``; None to call ``extract``.
        columns: Computes the timestamps of batches by their columns; None if records are processed
            as objects.
        stamped: Writes computed and timestamped records to the exchange directly; None if objects
            are needed.
        on_event: Called for each record, unless ``tracks_maximum``: then only ``max_timestamp`` is
            updated, which is all that the built-in generators need.
        had_events: Set by every record.
    """

    def __init__(self) -> None:
        StreamOperator.__init__(self)
        self.extract: Any = None
        self.expression: Any = None
        self.columns: Any = None
        self.stamped: StampedRecords | None = None
        self.on_event: Any = None
        self.emitter: Any = None
        self.tracks_maximum = False
        self.max_timestamp = MIN_TIMESTAMP
        self.had_events = False
        self.idle = False

    def mark_active(self) -> None:
        """End the idleness that the operator had declared, after a record."""
        raise NotImplementedError(type(self).__name__ + ".mark_active")

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            if self.expression is not None:
                timestamp = self.expression.number_of(value, timestamp)
            elif self.extract is not None:
                timestamp = timestamp_of(self.extract(value, timestamp), self.extract)
            # The generator comes after the record: a watermark it emits at once covers it.
            self.output.collect(value, timestamp)
            self.had_events = True
            if self.idle:
                self.mark_active()
            if not self.tracks_maximum:
                self.on_event(value, timestamp, self.emitter)
            elif timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
            done = True
        finally:
            if not done:
                self.note_failure()

    def process_all(self, values: Iterable[object], timestamp: int) -> None:
        """Process records of one timestamp, each before the next is requested."""
        stamped = self.stamped
        if stamped is None or self.idle:
            StreamOperator.process_all(self, values, timestamp)
            return
        for value in stamped.rest_of(values, timestamp):
            self.process(value, timestamp)
        if stamped.count > 0:
            self.had_events = True
            self.max_timestamp = max(self.max_timestamp, stamped.latest)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if it cannot be computed so."""
        columns = self.columns
        stamped = None if columns is None else columns.stamped(batch)
        if stamped is None:
            StreamOperator.process_batch(self, batch)
            return
        done = False
        try:
            self.output.collect_batch(stamped)
            self.had_events = True
            if self.idle:
                self.mark_active()
            self.max_timestamp = max(self.max_timestamp, stamped.max_timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()
