"""Questions of the driver to a worker on behalf of an observer, and the answers.

A request has a number, and its answer the same one.  Nothing of it changes a job.
"""

from __future__ import annotations

import msgspec

from penstock.rpc.message import Message


class DumpThreads(Message, frozen=True):
    """Asks what each thread of the worker's process is at."""

    request_id: int


class SampleStacks(Message, frozen=True):
    """Asks where the threads of some tasks are, ``samples`` times; frames beyond ``depth`` are cut.

    ``interval_ms`` is the time between two samples.  ``native`` asks for native functions, too.
    """

    request_id: int
    attempt_ids: tuple[bytes, ...]
    samples: int
    interval_ms: int
    depth: int
    native: bool


class SampleRecords(Message, frozen=True):
    """Asks for the next records that a task reads over one of its edges, as texts.

    ``edge`` numbers the edges into the vertex; ``redacted`` asks for the types of values instead
    of the values.  What has not come within ``timeout_ms`` is not waited for.
    """

    request_id: int
    attempt_id: bytes
    edge: int
    count: int
    timeout_ms: int
    redacted: bool


class LookUpState(Message, frozen=True):
    """Asks a task for what its keyed state has of some keys.

    ``operators`` are the ids of those that are meant; ``state`` is empty when only the names of
    states are wanted; ``keys`` are texts, of which the task knows the type that keys have.
    ``redacted`` asks for the types of values instead of the values.
    """

    request_id: int
    attempt_id: bytes
    operators: tuple[bytes, ...]
    state: str
    keys: tuple[str, ...]
    timeout_ms: int
    redacted: bool


class ReadState(Message, frozen=True):
    """Asks a task for entries of a keyed state.

    ``operators`` are the ids of those that are meant.  ``keys`` is a serialised list of keys; None
    asks for a page of ``limit`` entries behind the first ``position`` ones, of those that fit all
    of ``filters``: a serialised list of a path, a comparison and a value.
    """

    request_id: int
    attempt_id: bytes
    operators: tuple[bytes, ...]
    state: str
    keys: bytes | None
    filters: bytes
    position: int
    limit: int
    timeout_ms: int


class ReportMetrics(Message, frozen=True):
    """Somebody is looking: the metrics are wanted now and not only at the next interval."""


class ThreadStack(msgspec.Struct, frozen=True):
    """A thread and where it is, as a traceback of it would say."""

    name: str
    text: str


class StackCount(msgspec.Struct, frozen=True):
    """Number of times a task was seen at one place; ``frames`` begin with the outermost."""

    frames: tuple[str, ...]
    on_cpu: bool
    count: int


class SampledRecord(msgspec.Struct, frozen=True):
    """A record as text; ``timestamp_ms`` is None when it has none."""

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

    ``states`` are kinds of states by name; ``note`` says what the answer is without, and why.
    ``entries`` are serialised lists of entries, behind which ``position`` entries were looked at,
    the last of them if ``is_at_end``.
    """

    request_id: int
    threads: tuple[ThreadStack, ...] = ()
    stacks: tuple[StackCount, ...] = ()
    records: tuple[SampledRecord, ...] = ()
    states: dict[str, str] = msgspec.field(default_factory=dict)
    found: tuple[FoundState, ...] = ()
    entries: tuple[bytes, ...] = ()
    position: int = 0
    is_at_end: bool = True
    error: str = ""
    note: str = ""


Inspection = DumpThreads | SampleStacks | SampleRecords | LookUpState | ReadState
