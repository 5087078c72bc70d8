"""The messages of the control plane.

Every message is a msgspec struct, tagged with its class name and encoded as MessagePack.  A decoder
accepts only the messages that its side may receive: an unknown tag, a missing field or a field of
another type is rejected before the message has any effect.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

# msgspec looks the types up
from penstock.checkpoint_storage.handles import CheckpointMetrics, TaskStateSnapshot  # noqa: TC001
from penstock.metrics.values import MetricValues  # noqa: TC001
from penstock.rpc.checkpoint_messages import AskCheckpoint, CheckpointStandings
from penstock.rpc.frames import MAX_FRAME_BYTES
from penstock.rpc.inspection_messages import (
    DumpThreads,
    Inspected,
    LookUpState,
    ReadState,
    ReportMetrics,
    SampleRecords,
    SampleStacks,
)
from penstock.rpc.message import Message, MessageDecoder
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds  # noqa: TC001
from penstock.rpc.task_deployment import TaskDeploymentDescriptor  # noqa: TC001

CODE_CHUNK_BYTES = MAX_FRAME_BYTES // 2
"""Size of the chunks of job code, so that a frame never reaches its limit."""

ACCUMULATOR_EXTENSION = 1
"""MessagePack extension type of an accumulator in the self-describing codec."""

ROLE_CONTROL = "taskexecutor"
ROLE_HEARTBEAT = "heartbeat"
ROLE_COLLECT = "collect"
ROLE_BLOB = "blob"


class TaskFailure(msgspec.Struct, frozen=True):
    """Description of an exception that ended a task, without the exception itself.

    ``location`` is the line of the user's program that created the operator.  ``pickled`` is the
    exception by cloudpickle where that is possible; only the driver that shipped the job may
    unpickle it.
    """

    module: str
    qualname: str
    message: str
    traceback: str
    operator: str
    subtask: int
    location: str | None = None
    pickled: bytes | None = None


# ---- TaskExecutor → driver -------------------------------------------------------------------


class RegisterTaskExecutor(Message, frozen=True):
    """First message of a control connection; ``jobs`` are the jobs that it may serve.

    ``release`` is the version of penstock: messages within a cluster have no version of their own.
    """

    executor_id: str
    epoch: int
    host: str
    jobs: tuple[bytes, ...]
    slots: int
    pid: int
    release: str = ""


class SlotOffer(msgspec.Struct, frozen=True):
    """An allocated slot, as its TaskExecutor offers it to the job.

    ``network_buffers`` is its share of the TaskExecutor's network buffers.
    """

    slot: int
    allocation_id: bytes
    network_buffers: int


class OfferSlots(Message, frozen=True):
    """Offers the slots that are allocated for a job to its JobMaster.

    ``host`` and ``data_port`` are the data address of their tasks.
    """

    job_id: bytes
    host: str
    data_port: int
    offers: tuple[SlotOffer, ...]


class SlotRefused(Message, frozen=True):
    """A `RequestSlot` was rejected; ``reason`` says why."""

    job_id: bytes
    allocation_id: bytes
    reason: str


class SlotFreed(Message, frozen=True):
    """A slot is free again: its last task ended after it was released."""

    slot: int
    allocation_id: bytes


class UpdateTaskState(Message, frozen=True):
    """A task entered a state; ``failure`` is set if the state is FAILED."""

    job_id: bytes
    attempt_id: bytes
    state: str
    failure: TaskFailure | None = None
    accumulators: dict[str, Any] = msgspec.field(default_factory=dict)


class ReportAccumulators(Message, frozen=True):
    """Intermediate accumulator values of one attempt."""

    job_id: bytes
    attempt_id: bytes
    accumulators: dict[str, Any]


class ReaderRegistration(Message, frozen=True):
    """The reader of a source runs and accepts splits."""

    job_id: bytes
    attempt_id: bytes
    operator_id: bytes


class RequestSplit(Message, frozen=True):
    """The reader of a source requests a split from its enumerator."""

    job_id: bytes
    attempt_id: bytes
    operator_id: bytes


class AcknowledgeCheckpointEvent(Message, frozen=True):
    """The barrier of a checkpoint has left the source: its coordinator may send again."""

    job_id: bytes
    attempt_id: bytes
    operator_id: bytes
    checkpoint_id: int


class ReportedWatermark(Message, frozen=True):
    """Watermark of an aligned source's reader, in ms."""

    job_id: bytes
    attempt_id: bytes
    operator_id: bytes
    watermark: int


class SourceEvent(Message, frozen=True):
    """An event between the reader of a source and its enumerator, in either direction.

    ``event`` is encoded by the self-describing codec.
    """

    job_id: bytes
    attempt_id: bytes
    operator_id: bytes
    event: bytes


class AcknowledgeCheckpoint(Message, frozen=True):
    """A subtask's part of a checkpoint is written; ``state`` is None if it has none."""

    job_id: bytes
    attempt_id: bytes
    checkpoint_id: int
    metrics: CheckpointMetrics
    state: TaskStateSnapshot | None = None


class AcknowledgeCheckpoints(Message, frozen=True):
    """The parts of several subtasks of a job are written.

    ``reports`` has the attempt of each and its own fields of `AcknowledgeCheckpoint`.
    """

    job_id: bytes
    checkpoint_id: int
    reports: tuple[tuple[bytes, CheckpointMetrics, TaskStateSnapshot | None], ...]


class DeclineCheckpoint(Message, frozen=True):
    """A subtask declines a checkpoint.

    ``reason`` is a ``CheckpointFailureReason`` by its value; ``detail`` is for people.
    """

    job_id: bytes
    attempt_id: bytes
    checkpoint_id: int
    reason: str
    detail: str = ""


class LogEntry(msgspec.Struct, frozen=True):
    """One record of a worker's log; ``operator`` is empty if no operator was running."""

    name: str
    level: int
    message: str
    created_s: float
    path: str
    line: int
    function: str
    thread: str
    operator: str
    subtask: int
    parallelism: int
    exception: str


class LogRecords(Message, frozen=True):
    """A part of a worker's log; ``dropped`` records before it exceeded the worker's queue."""

    executor_id: str
    entries: tuple[LogEntry, ...]
    dropped: int


class PrintedText(Message, frozen=True):
    """Text for the driver's standard output or error; answered by `PrintedTextWritten`.

    ``number`` counts the texts of a worker, from 1.
    """

    executor_id: str
    number: int
    is_error: bool
    text: str


class TaskMetrics(Message, frozen=True):
    """Current metrics of an attempt, and by name those of its operators."""

    job_id: bytes
    attempt_id: bytes
    task: MetricValues
    operators: dict[str, MetricValues]


class WorkerMetrics(Message, frozen=True):
    """Current metrics of a worker's process."""

    values: MetricValues


class AwaitFinalCheckpoint(Message, frozen=True):
    """A subtask has ended and waits for a checkpoint that includes its last state."""

    job_id: bytes
    attempt_id: bytes


class FatalError(Message, frozen=True):
    """The TaskExecutor cannot continue and ends after this message."""

    reason: str


# ---- driver → TaskExecutor -------------------------------------------------------------------


class RegistrationAccepted(Message, frozen=True):
    """The TaskExecutor may serve slots."""

    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int


class RegistrationRefused(Message, frozen=True):
    """The TaskExecutor is rejected (an older incarnation, or unknown) and must end."""

    reason: str


class RequestSlot(Message, frozen=True):
    """The ResourceManager assigns one slot of this TaskExecutor to a job.

    ``network_buffers`` are the most that the tasks of any slot of the job can use.
    """

    job_id: bytes
    slot: int
    allocation_id: bytes
    network_buffers: NetworkBufferNeeds


class AcceptSlots(Message, frozen=True):
    """The JobMaster accepts offered slots: they become ACTIVE."""

    job_id: bytes
    allocation_ids: tuple[bytes, ...]


class FreeSlot(Message, frozen=True):
    """Releases a slot; its tasks are failed with ``cause``."""

    allocation_id: bytes
    cause: str


class CodeChunk(Message, frozen=True):
    """A piece of job code; pieces of one id arrive in order, the last one is marked."""

    code_id: str
    data: bytes
    last: bool


class ReleaseCode(Message, frozen=True):
    """Releases job code that no further task of the job needs."""

    code_ids: tuple[str, ...]


class SubmitTask(Message, frozen=True):
    """Runs a task in a slot of the job."""

    descriptor: TaskDeploymentDescriptor


class CancelTask(Message, frozen=True):
    """Cancels an attempt; an unknown one is ignored."""

    attempt_id: bytes


class ReleasePartitions(Message, frozen=True):
    """Drops finished blocking partitions that will not be read; unknown ones are ignored."""

    job_id: bytes
    partition_ids: tuple[bytes, ...]


class TriggerCheckpoint(Message, frozen=True):
    """Triggers a checkpoint in sources, or tasks whose inputs have ended, of one worker.

    ``kind``, ``savepoint_format`` and ``alignment`` are the numbers of ``SnapshotKind``,
    ``SavepointFormat`` and ``Alignment``; ``location`` is the directory of a savepoint.
    """

    attempt_ids: tuple[bytes, ...]
    checkpoint_id: int
    timestamp_ms: int
    kind: int
    alignment: int
    aligned_timeout_ms: int
    savepoint_format: int = 0
    location: bytes | None = None


class NotifyCheckpointComplete(Message, frozen=True):
    """A checkpoint and all earlier ones are complete and durable."""

    attempt_ids: tuple[bytes, ...]
    checkpoint_id: int


class NotifyCheckpointAborted(Message, frozen=True):
    """A checkpoint is aborted; ``latest_completed_id`` is -1 if there is none."""

    attempt_ids: tuple[bytes, ...]
    checkpoint_id: int
    latest_completed_id: int


class AddSplits(Message, frozen=True):
    """The enumerator of a source assigns splits to a reader, in the self-describing codec."""

    attempt_id: bytes
    operator_id: bytes
    splits: tuple[bytes, ...]


class NoMoreSplits(Message, frozen=True):
    """The enumerator of a source will assign no further split to a reader."""

    attempt_id: bytes
    operator_id: bytes


class WatermarkAlignment(Message, frozen=True):
    """Largest watermark at which a reader waits for the others of its group, in ms."""

    attempt_id: bytes
    operator_id: bytes
    max_watermark: int


class Shutdown(Message, frozen=True):
    """Ends the TaskExecutor."""

    reason: str


class PrintedTextWritten(Message, frozen=True):
    """A `PrintedText` and all earlier ones are written, unless ``failure`` says why not."""

    number: int
    failure: str = ""


# ---- other roles -----------------------------------------------------------------------------


class HeartbeatHello(Message, frozen=True):
    """First frame of a heartbeat connection."""

    executor_id: str
    epoch: int


ToDriver = (
    RegisterTaskExecutor
    | OfferSlots
    | SlotRefused
    | SlotFreed
    | UpdateTaskState
    | ReportAccumulators
    | ReaderRegistration
    | RequestSplit
    | AcknowledgeCheckpointEvent
    | AcknowledgeCheckpoint
    | AcknowledgeCheckpoints
    | DeclineCheckpoint
    | AwaitFinalCheckpoint
    | CheckpointStandings
    | ReportedWatermark
    | SourceEvent
    | FatalError
    | LogRecords
    | PrintedText
    | TaskMetrics
    | WorkerMetrics
    | Inspected
)
ToTaskExecutor = (
    RegistrationAccepted
    | RegistrationRefused
    | RequestSlot
    | AcceptSlots
    | FreeSlot
    | CodeChunk
    | ReleaseCode
    | SubmitTask
    | CancelTask
    | ReleasePartitions
    | TriggerCheckpoint
    | NotifyCheckpointComplete
    | NotifyCheckpointAborted
    | AskCheckpoint
    | AddSplits
    | NoMoreSplits
    | WatermarkAlignment
    | SourceEvent
    | DumpThreads
    | SampleStacks
    | SampleRecords
    | LookUpState
    | ReadState
    | ReportMetrics
    | PrintedTextWritten
    | Shutdown
)
ToEnumerator = ReaderRegistration | RequestSplit | AcknowledgeCheckpointEvent | SourceEvent
ToCoordinator = ToEnumerator | ReportedWatermark
ForCheckpoints = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
FromCoordinator = AddSplits | NoMoreSplits | WatermarkAlignment | SourceEvent


@functools.cache
def driver_decoder() -> MessageDecoder[ToDriver]:
    """Return the decoder of messages that the driver receives on a control connection."""
    return MessageDecoder(ToDriver)


@functools.cache
def task_executor_decoder() -> MessageDecoder[ToTaskExecutor]:
    """Return the decoder of messages that a TaskExecutor receives on its control connection."""
    return MessageDecoder(ToTaskExecutor)


@functools.cache
def heartbeat_decoder() -> MessageDecoder[HeartbeatHello]:
    """Return the decoder of the first frame of a heartbeat connection."""
    return MessageDecoder(HeartbeatHello)


def code_chunks(code_id: str, code: bytes) -> list[CodeChunk]:
    """Split job code into messages that fit frames; at least one, also for empty code."""
    starts = range(0, max(1, len(code)), CODE_CHUNK_BYTES)
    return [
        CodeChunk(code_id, code[at : at + CODE_CHUNK_BYTES], at + CODE_CHUNK_BYTES >= len(code))
        for at in starts
    ]
