"""A sample of the records that a task reads: the next few, as texts.

While one is taken, a `SampledInput` stands before the operator's own input; otherwise records cost
nothing extra.
"""

from __future__ import annotations

import reprlib
import threading
from typing import Any, Final

from penstock.common.exception_deadline import repr_in_time
from penstock.common.types import Row
from penstock.rpc.inspection_messages import SampledRecord
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, Input

MAX_TEXT_CHARACTERS: Final = 1000
MAX_SHOWN_PARTS: Final = 50

_repr: Final = reprlib.Repr()
_repr.maxlevel = 6
_repr.maxstring = _repr.maxother = _repr.maxlong = 200
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = MAX_SHOWN_PARTS


class RecordSample:
    """The records of one sample; the task's thread fills it, another reads it.

    Attributes:
        full: Set when the sample has the requested number of records.
    """

    def __init__(self, count: int, *, redacted: bool) -> None:
        """Create an empty sample.

        Args:
            count: Number of records to sample.
            redacted: Whether types are shown instead of values.
        """
        self.full = threading.Event()
        self._count = count
        self._describe = shape_of if redacted else text_of
        self._records: list[SampledRecord] = []

    def add(self, value: object, timestamp: int) -> None:
        """Add a record, unless the sample is full."""
        if len(self._records) < self._count:
            at_ms = None if timestamp == MIN_TIMESTAMP else timestamp
            self._records.append(SampledRecord(self._describe(value), at_ms))
            if len(self._records) == self._count:
                self.full.set()

    def records(self) -> tuple[SampledRecord, ...]:
        """Return the records sampled so far, and end the sample.

        Later records are not described: each text may take the task's thread its whole time limit.
        """
        self._count = 0
        return tuple(self._records)


class SampledInput(Input):
    """Samples the records that pass to an input."""

    def __init__(self, target: Input, sample: RecordSample) -> None:
        """Create an input before another one.

        Args:
            target: The input that processes the records.
            sample: The sample to fill.
        """
        self.target = target
        self.sample = sample

    def process(self, value: object, timestamp: int) -> None:
        """Sample a record, then pass it on unchanged."""
        self.sample.add(value, timestamp)
        self.target.process(value, timestamp)


def text_of(value: object) -> str:
    """Return a value as text, within a deadline; it raises nothing, whatever its class does."""
    return repr_in_time(value, MAX_TEXT_CHARACTERS, _repr.repr)


def shape_of(value: Any, depth: int = 4) -> str:
    """Return the types of a value and its parts, and their lengths, but no contents."""
    name = type(value).__name__
    if isinstance(value, str | bytes):
        return f"{name} of {len(value)}"
    if depth and isinstance(value, tuple):
        parts = [shape_of(part, depth - 1) for part in value[:MAX_SHOWN_PARTS]]
        return f"{name}({', '.join(parts)})"[:MAX_TEXT_CHARACTERS]
    if isinstance(value, list | dict | set | frozenset):
        return f"{name} of {len(value)}"
    if depth and issubclass(type(value), Row):
        fields = value._values
        return f"{name}{shape_of(tuple(fields), depth - 1).removeprefix('tuple')}"
    return name
