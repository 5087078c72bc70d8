"""Savepoints that the program requests: their directory, and when they are answered (M62, M30)."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.file_systems import absolute
from penstock.common.options import checkpointing, pipeline
from penstock.errors import CheckpointError
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.network.events import SavepointFormat, SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.jobs.job_gateway import SavepointWish
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.checkpointing.service import CheckpointService


@dataclass(eq=False)
class SavepointRequest:
    """A request for a savepoint, until it is answered.

    Attributes:
        wish: The requested savepoint.
        job_name: The job, for errors.
        future: The savepoint's path.
    """

    wish: SavepointWish
    job_name: str
    future: Future[str] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _path: str | None = None

    def __post_init__(self) -> None:
        # A savepoint cannot be revoked: from now on `cancel` of the future returns False.
        self.future.set_running_or_notify_cancel()

    def complete(self, path: str) -> None:
        """Answer with the path; if the savepoint stops the job, wait for the job's end."""
        self._path = path
        if self.wish.end != "stop":
            self._answer(path)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        self._answer(error)

    def job_failed(self, detail: str) -> str:
        """Answer that tasks failed after the savepoint the job was to end with; return the text."""
        text = (
            f"savepoint {self._path} is complete, but job {self.job_name!r} failed while it was "
            f"stopping: {detail}; what it should have committed may be missing: start it from "
            "that savepoint, which commits it"
        )
        self._answer(CheckpointError(text))
        return text

    def job_ended(self, status: str) -> None:
        """Answer a request that is still open when the job ends."""
        if self._path is None:
            ended = f"job {self.job_name!r} is {status}"
            self._answer(CheckpointError(f"{ended}: a savepoint needs a job that runs"))
        elif status == "FINISHED" or self.wish.end == "cancel":
            self._answer(self._path)
        else:
            self._answer(
                CheckpointError(
                    f"savepoint {self._path} is complete, but job {self.job_name!r} is {status} "
                    "instead of FINISHED: what it should have committed may be missing"
                )
            )

    def _answer(self, answer: str | BaseException) -> None:
        with self._lock:
            if self.future.done():
                return
            if isinstance(answer, str):
                self.future.set_result(answer)
            else:
                self.future.set_exception(answer)


class Savepoints:
    """Takes the savepoints of one job; every method runs in the main thread."""

    def __init__(
        self,
        configuration: Mapping[str, str],
        checkpoints: CheckpointService,
        cancel_job: Callable[[], None],
    ) -> None:
        """Create the service.

        Args:
            configuration: Has the default directory of savepoints.
            checkpoints: Takes the savepoints.
            cancel_job: Cancels the job.
        """
        self._configuration = configuration
        self._checkpoints = checkpoints
        self._cancel_job = cancel_job
        self._stopping: SavepointRequest | None = None

    def take(self, request: SavepointRequest) -> None:
        """Take a savepoint, and end the job with it if requested."""
        wish = request.wish
        if pipeline.RUNTIME_MODE.read(self._configuration) == "BATCH":
            request.fail(CheckpointError("a job in BATCH mode takes no savepoints"))
            return
        target = wish.directory or checkpointing.SAVEPOINT_FOLDER.read(self._configuration)
        if target is None:
            key = checkpointing.SAVEPOINT_FOLDER.key
            request.fail(
                CheckpointError(
                    f"no directory for the savepoint: name one in the call, or set {key}"
                )
            )
            return
        kind = SnapshotKind.SAVEPOINT
        if wish.end == "stop":
            kind = (
                SnapshotKind.SAVEPOINT_TERMINATE if wish.drains else SnapshotKind.SAVEPOINT_SUSPEND
            )
        properties = CheckpointProperties.savepoint(
            kind,
            SavepointFormat[wish.savepoint_format],
            absolute(target),
            cancels_job=wish.end == "cancel",
        )
        completion = self._checkpoints.request(properties)
        completion.add_done_callback(lambda done: self._taken(request, done))

    def job_failing(self, detail: str) -> str | None:
        """Handle the coming restart of tasks.

        Returns:
            Why the job cannot continue, if so: sinks have begun to commit the output of a
            savepoint, and would write it again after a restart from the last checkpoint.
        """
        request, self._stopping = self._stopping, None
        return None if request is None else request.job_failed(detail)

    def _taken(self, request: SavepointRequest, done: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is not None:
            request.fail(error)
            return
        if request.wish.end == "stop":
            self._stopping = request
        request.complete(done.result().pointer)
        if request.wish.end == "cancel":
            self._cancel_job()
