"""RemoteJobGateway: the gateway to a job in a session, for the program that submitted it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.jobs.job_gateway import JobGateway, StateAnswer
from penstock.common.jobs.job_progress import JobProgress
from penstock.errors import (
    CheckpointError,
    IllegalStateError,
    JobExecutionError,
    PenstockError,
    StateReadError,
)
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.jobmaster.user_failure import exception_of_task
from penstock.rpc import session_messages as messages
from penstock.rpc.blob_messages import BlobChunk
from penstock.serialization.codec import codec_for
from penstock.session.session_client import SessionClient, named_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.jobs.job_gateway import OperatorTotals, SavepointWish, StateQuestion
    from penstock.session.files import SessionAddress
    from penstock.session.following import JobFollower

logger = logging.getLogger(__name__)

INTERRUPT_GRACE_S: Final = 10.0
"""Time that an interrupted program waits for the end of the job it cancelled."""


class RemoteJobGateway(JobGateway):
    """Sends requests about one job to its session."""

    def __init__(
        self,
        client: SessionClient,
        job_id: bytes,
        job_name: str,
        collect_ids: Iterable[str] = (),
        follower: JobFollower | None = None,
    ) -> None:
        """Follow a job.

        Args:
            client: The connection over which it was submitted.
            job_id: Its id.
            job_name: Its name.
            collect_ids: Its collect sinks, whose results are kept as long as the connection is.
            follower: Finds the jobmanager that has resumed the job; None if nobody waits for its
                end.
        """
        super().__init__(job_id, job_name)
        self._client = client
        self._follower = follower if client.keeps_jobs else None
        self._leaving = threading.Event()
        self._untaken = set(collect_ids)
        self._status = JobStatus.CREATED
        self._progress = JobProgress(job_name, JobStatus.CREATED.value, 0)
        atexit.register(self.detach)
        self._thread = threading.Thread(target=self._follow, name=f"job {job_name}", daemon=True)
        self._thread.start()

    # ---- questions and commands --------------------------------------------------------------

    def status(self) -> JobStatus:
        """Return the job's present status."""
        self._look()
        return self._status

    def cancel(self) -> Future[None]:
        """Request cancellation; the session has answered when this returns."""
        self._ask_unless_ended(messages.CancelJob(self.job_id), messages.Done)
        begun: Future[None] = Future()
        begun.set_result(None)
        return begun

    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Request a savepoint; the future returns its path."""
        future: Future[str] = Future()
        # A savepoint cannot be revoked: from now on `cancel` of the future returns False.
        future.set_running_or_notify_cancel()
        question = messages.AskSavepoint(
            self.job_id, wish.directory, wish.savepoint_format, wish.end, wish.drains
        )

        def ask() -> None:
            try:
                future.set_result(self._ask(question, messages.Path).path)
            except JobExecutionError as error:
                future.set_exception(self._not_taken(error) if self._ended.is_set() else error)
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=ask, name="savepoint", daemon=True).start()
        return future

    def accumulators(self) -> dict[str, Any]:
        """Return the present accumulators."""
        question = messages.AskAccumulators(self.job_id)
        answer = self._ask_unless_ended(question, messages.Values)
        return self._final_accumulators if answer is None else _values(answer.encoded)

    def progress(self) -> JobProgress:
        """Return the job's progress."""
        self._look()
        return replace(self._progress, status=self._status.value, runtime_ms=self.runtime_ms())

    def operator_totals(self) -> OperatorTotals:
        """Reject the call: a session's client does not receive the metrics.

        Raises:
            IllegalStateError: Always.
        """
        raise IllegalStateError(
            f"the metrics of job {self.job_name!r} are in its session: read them by the session's "
            "REST interface"
        )

    def read_state(self, question: StateQuestion) -> StateAnswer:
        """Return entries of a keyed state, as tasks have them now.

        Raises:
            StateReadError: The job does not run, has no such state, or does not answer.
        """
        if self._ended.is_set():
            raise StateReadError(f"job {self.job_name!r} is {self._status.value}")
        write = codec_for(None).encode
        answer = self._ask(
            messages.AskState(
                self.job_id,
                question.operator,
                question.state,
                None if question.keys is None else write(list(question.keys)),
                write([[list(path), sign, value] for path, sign, value in question.filters]),
                question.cursor,
                question.limit,
            ),
            messages.StateEntries,
        )
        entries = tuple(answer.entries)
        return StateAnswer(entries, answer.cursor, answer.checkpoint, answer.fields)

    def collect(self, collect_id: str) -> RemoteResults:
        """Return the results of one of the job's collect sinks."""
        return RemoteResults(self._client.session, self.job_id, collect_id, self._taken)

    def _interrupted(self) -> None:
        with contextlib.suppress(PenstockError):  # the session is gone, and the job with it
            self.cancel()
            self._ended.wait(INTERRUPT_GRACE_S)

    # ---- life --------------------------------------------------------------------------------

    def detach(self) -> None:
        """Let the job continue without this program, which ends or does not wait."""
        atexit.unregister(self.detach)
        self._leaving.set()
        if not self._ended.is_set():
            with contextlib.suppress(OSError):  # the session is gone, and the job with it
                self._client.send(messages.Detach())

    def _follow(self) -> None:
        try:
            message = self._receive()
            if not isinstance(message, messages.JobEnded):
                raise JobExecutionError(f"the session sent an unexpected {type(message).__name__}")
            status = JobStatus(message.status)
            error = None if message.error is None else _exception(message.error)
            self._end(status, error, _values(message.accumulators), message.runtime_ms)
        except PenstockError as error:
            lost = JobExecutionError(f"job {self.job_name!r} ({self.job_id.hex()}): {error}")
            lost.__cause__ = error
            self._end(JobStatus.SUSPENDED, lost, {}, None)

    def _receive(self) -> messages.ToClient:
        """Return the next message, from the jobmanager that has the job.

        Raises:
            PenstockError: It is lost, and no jobmanager resumes the job.
        """
        while True:
            try:
                message = self._client.receive()
            except JobExecutionError as error:
                if self._follower is None or self._leaving.is_set():
                    raise
                lost = error
            else:
                # A suspended job is left to the next jobmanager.
                is_over = not isinstance(message, messages.JobEnded) or (
                    JobStatus(message.status) is not JobStatus.SUSPENDED
                )
                if is_over or self._follower is None:
                    return message
                lost = JobExecutionError(f"the session {self._client.session.name} has ended")
            self._client.close()
            self._client = self._follower.follow(str(lost), self._leaving)

    def _end(
        self,
        status: JobStatus,
        error: BaseException | None,
        values: dict[str, Any],
        runtime_ms: int | None,
    ) -> None:
        self._status = status
        self._note_end(error, values, runtime_ms)
        atexit.unregister(self.detach)
        self.complete()
        self._leave()

    def _taken(self, collect_id: str) -> None:
        """Note that a collect sink's results are no longer needed."""
        with self._lock:
            self._untaken.discard(collect_id)
        self._leave()

    def _leave(self) -> None:
        """Let the session forget the job, once no more requests follow."""
        with self._lock:
            is_over = self._ended.is_set() and not self._untaken
        if is_over:
            self._client.close()

    def _look(self) -> None:
        if self._ended.is_set():
            return
        with contextlib.suppress(PenstockError):  # `_follow` is notified of the end, too
            answer = self._ask(messages.AskJob(self.job_id), messages.JobState)
            if not self._ended.is_set():
                self._status, self._progress = JobStatus(answer.status), answer.progress

    def _not_taken(self, error: JobExecutionError) -> CheckpointError:
        """Return why there is no savepoint of an ended job, which the session has forgotten."""
        ended = f"job {self.job_name!r} is {self._status.value}"
        failure = CheckpointError(f"{ended}: a savepoint needs a job that runs ({error})")
        failure.__cause__ = error
        return failure

    def _ask_unless_ended(self, question: Any, kind: type[Any]) -> Any | None:
        """Return the answer; None if the job has ended, which the session may have forgotten."""
        if self._ended.is_set():
            return None
        try:
            return self._ask(question, kind)
        except JobExecutionError:
            if self._ended.is_set():
                return None
            raise

    def _ask(self, question: Any, kind: type[Any]) -> Any:
        with SessionClient(self._client.session) as client:
            return client.ask(question, kind)


class RemoteResults:
    """The results of a collect sink; taken by one thread."""

    def __init__(
        self,
        session: SessionAddress,
        job_id: bytes,
        collect_id: str,
        on_over: Callable[[str], None],
    ) -> None:
        """Create the results; they connect on first use, and call ``on_over`` at the end."""
        self._session = session
        self._collect_id = collect_id
        self._on_over = on_over
        self._question = messages.TakeResults(job_id, collect_id)
        self._client: SessionClient | None = None
        self._is_over = False

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """Return the next batch; None at the end.

        Raises:
            TimeoutError: None arrived within ``timeout_s``.
            PenstockError: The session is gone.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_over:
            if self._client is None:
                self._client = SessionClient(self._session)
            self._client.send(self._question)
            parts: list[bytes] = []
            while True:
                answer: Any = self._client.answer(BlobChunk, messages.NotYet, messages.Done)
                if not isinstance(answer, BlobChunk):
                    break
                parts.append(answer.data)
                if answer.last:
                    return b"".join(parts)
            if isinstance(answer, messages.Done):
                self.close()
            elif deadline_s is not None and time.monotonic() >= deadline_s:
                raise TimeoutError(f"no result within {timeout_s} s")
        return None

    def close(self) -> None:
        """Stop receiving results."""
        self._is_over = True
        client, self._client = self._client, None
        if client is not None:
            client.close()
        self._on_over(self._collect_id)


def _values(encoded: bytes) -> dict[str, Any]:
    values: dict[str, Any] = codec_for(None).decode(encoded)
    return values


def _exception(failed: messages.Failed) -> BaseException:
    if failed.task_name is not None:
        return exception_of_task(failed.failure, failed.task_name)
    return named_error(failed.failure.qualname, failed.failure.message)
