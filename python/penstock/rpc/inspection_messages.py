"""The driver's requests to a worker on behalf of an observer, and the answers.

A request has a number, and its answer the same one.  None of them changes a job.
"""

from __future__ import annotations

import msgspec

from penstock.rpc.message import Message


class DumpThreads(Message, frozen=True):
    """Requests the stack of each thread of the worker's process."""

    request_id: int


class SampleStacks(Message, frozen=True):
    """Requests ``samples`` stacks of the threads of some tasks, cut at ``depth`` frames.

    ``interval_ms`` is the time between two samples.  ``native`` includes native functions.
    """

    request_id: int
    attempt_ids: tuple[bytes, ...]
    samples: int
    interval_ms: int
    depth: int
    native: bool


class SampleRecords(Message, frozen=True):
    """Requests the next records that a task reads over one of its edges, as texts.

    ``edge`` numbers the edges into the vertex; ``redacted`` requests the types of values instead
    of the values.  The answer is sent after ``timeout_ms`` at the latest.
    """

    request_id: int
    attempt_id: bytes
    edge: int
    count: int
    timeout_ms: int
    redacted: bool


class LookUpState(Message, frozen=True):
    """Requests a task's keyed state of some keys.

    ``operators`` are the ids of the operators; ``state`` is empty to request only the names of
    states; ``keys`` are texts, which the task converts to the type of its keys.  ``redacted``
    requests the types of values instead of the values.
    """

    request_id: int
    attempt_id: bytes
    operators: tuple[bytes, ...]
    state: str
    keys: tuple[str, ...]
    timeout_ms: int
    redacted: bool


class ReadState(Message, frozen=True):
    """Requests entries of a keyed state from a task.

    ``operators`` are the ids of the operators.  ``keys`` is a serialised list of keys; None
    requests a page of ``limit`` entries after the first ``position`` ones, of those that match
    all of ``filters``: a serialised list of a path, a comparison and a value.  ``scan`` is the
    number that the answer to the first page has, 0 for the first page.
    """

    request_id: int
    attempt_id: bytes
    operators: tuple[bytes, ...]
    state: str
    keys: bytes | None
    filters: bytes
    position: int
    scan: int
    limit: int
    timeout_ms: int


class ReportMetrics(Message, frozen=True):
    """Requests the metrics for a watcher now, before the next interval."""


class ThreadStack(msgspec.Struct, frozen=True):
    """A thread and its stack, formatted like a traceback."""

    name: str
    text: str


class StackCount(msgspec.Struct, frozen=True):
    """Number of samples of a task at one place; ``frames`` start with the outermost."""

    frames: tuple[str, ...]
    on_cpu: bool
    count: int


class SampledRecord(msgspec.Struct, frozen=True):
    """A record as text; ``timestamp_ms`` is None if it has none."""

    text: str
    timestamp_ms: int | None


class FoundState(msgspec.Struct, frozen=True):
    """State of a key; ``namespace`` is empty outside of windows."""

    operator: str
    key: str
    namespace: str
    text: str


class Inspected(Message, frozen=True):
    """The answer to a request; ``error`` says why there is none.

    ``states`` are kinds of states by name; ``note`` says what is missing in the answer, and why.
    ``entries`` are serialised lists of entries; ``position`` is the number of entries visited so
    far, all of them if ``is_at_end``.  The next page is requested with ``scan``.  ``fields`` are
    the fields that the filters name, with what is wrong with each.
    """

    request_id: int
    threads: tuple[ThreadStack, ...] = ()
    stacks: tuple[StackCount, ...] = ()
    records: tuple[SampledRecord, ...] = ()
    states: dict[str, str] = msgspec.field(default_factory=dict)
    found: tuple[FoundState, ...] = ()
    entries: tuple[bytes, ...] = ()
    position: int = 0
    scan: int = 0
    is_at_end: bool = True
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    error: str = ""
    note: str = ""


Inspection = DumpThreads | SampleStacks | SampleRecords | LookUpState | ReadState
