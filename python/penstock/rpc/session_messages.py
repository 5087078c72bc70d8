"""Messages between a program and the session that runs its jobs.

A connection starts with `ClientHello`.  Requests follow, each with one answer, except `Detach`,
which has none, and `JobEnded`, which is sent unasked on the connection of a `SubmitJob`.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from penstock.common.jobs.job_progress import JobProgress  # noqa: TC001 (msgspec looks it up)
from penstock.dependencies.manifest import BlobKey, DependencyManifest  # noqa: TC001
from penstock.rpc.blob_messages import BlobChunk
from penstock.rpc.host_messages import Versions  # noqa: TC001
from penstock.rpc.message import Message, MessageDecoder
from penstock.rpc.messages import TaskFailure  # noqa: TC001

ROLE_CLIENT = "client"


# ---- program → session -----------------------------------------------------------------------


class ClientHello(Message, frozen=True):
    """First message."""

    versions: Versions


class PutBlob(Message, frozen=True):
    """The bytes of a following job's blob are in `BlobChunk` messages; answered by `BlobKept`."""


class SubmitJob(Message, frozen=True):
    """Starts a job; answered by `JobAccepted`.

    Attributes:
        graph: The blob that is its JobGraph.
        collect_ids: Its collect sinks.
        manifest: Its code and files.
        launch: Entries of its workers' launch specification.
        attached: Whether the job is cancelled when this connection is lost without `Detach`.
    """

    graph: BlobKey
    collect_ids: tuple[str, ...]
    manifest: DependencyManifest
    launch: dict[str, Any]
    attached: bool


class FollowJob(Message, frozen=True):
    """Follows a job that was submitted to a former jobmanager; answered as `SubmitJob`.

    Attributes:
        job_id: Its id.
        attached: As of `SubmitJob`.
    """

    job_id: bytes
    attached: bool


class Detach(Message, frozen=True):
    """The program ends and lets the job continue."""


class AskJob(Message, frozen=True):
    """Requests a job's state; answered by `JobState`."""

    job_id: bytes


class CancelJob(Message, frozen=True):
    """Requests a job's cancellation; answered by `Done`."""

    job_id: bytes


class AskAccumulators(Message, frozen=True):
    """Requests a job's accumulators; answered by `Values`."""

    job_id: bytes


class AskSavepoint(Message, frozen=True):
    """Requests a savepoint; answered by `Path` once it is complete."""

    job_id: bytes
    directory: str | None
    savepoint_format: str
    end: str
    drains: bool


class AskState(Message, frozen=True):
    """Requests entries of a keyed state; answered by `StateEntries`.

    ``keys`` and ``filters`` are serialised lists; ``keys`` is None for a page of a scan.
    """

    job_id: bytes
    operator: str
    state: str
    keys: bytes | None
    filters: bytes
    cursor: str
    limit: int


class TakeResults(Message, frozen=True):
    """Requests the next batch of a collect sink; answered by `BlobChunk` messages or `Done`.

    The answer is `NotYet` if there is none within a moment.
    """

    job_id: bytes
    collect_id: str


class StopSession(Message, frozen=True):
    """Ends the session and its hosts; answered by `Done`."""


# ---- session → program -----------------------------------------------------------------------


class Refused(Message, frozen=True):
    """A request cannot be answered: the name of a penstock exception, and its text."""

    kind: str
    reason: str


class ClientAccepted(Message, frozen=True):
    """The answer to `ClientHello`.

    Attributes:
        name: The session's name.
        keeps_jobs: Whether the next jobmanager resumes its jobs.
    """

    name: str
    keeps_jobs: bool = False


class BlobKept(Message, frozen=True):
    """The answer to `PutBlob`."""

    key: BlobKey


class JobAccepted(Message, frozen=True):
    """The job is accepted."""


class JobState(Message, frozen=True):
    """State of a job."""

    status: str
    progress: JobProgress


class Failed(msgspec.Struct, frozen=True):
    """Cause of a job's failure: an exception of user code if there is a task, else of penstock."""

    failure: TaskFailure
    task_name: str | None


class JobEnded(Message, frozen=True):
    """A submitted job has ended; ``accumulators`` are in the self-describing codec."""

    status: str
    runtime_ms: int
    accumulators: bytes
    error: Failed | None


class Values(Message, frozen=True):
    """Accumulators, in the self-describing codec."""

    encoded: bytes


class StateEntries(Message, frozen=True):
    """Entries of a keyed state, as of `StateAnswer`."""

    entries: tuple[bytes, ...]
    cursor: str | None
    checkpoint: str | None
    fields: dict[str, str]


class Path(Message, frozen=True):
    """Path of a savepoint."""

    path: str


class NotYet(Message, frozen=True):
    """There is no batch at the moment."""


class Done(Message, frozen=True):
    """The request is done, or nothing more follows."""


FromClient = (
    ClientHello
    | PutBlob
    | BlobChunk
    | SubmitJob
    | FollowJob
    | Detach
    | AskJob
    | CancelJob
    | AskAccumulators
    | AskSavepoint
    | AskState
    | TakeResults
    | StopSession
)
ToClient = (
    Refused
    | ClientAccepted
    | BlobKept
    | JobAccepted
    | JobState
    | JobEnded
    | Values
    | Path
    | StateEntries
    | NotYet
    | Done
    | BlobChunk
)


@functools.cache
def from_client_decoder() -> MessageDecoder[FromClient]:
    """Return the decoder of messages that the session receives."""
    return MessageDecoder(FromClient)


@functools.cache
def to_client_decoder() -> MessageDecoder[ToClient]:
    """Return the decoder of messages that the program receives."""
    return MessageDecoder(ToClient)
