"""The session's end of the connections of programs: accepts jobs, and reports their state.

A program proves the session's token before any byte of it is processed; only then are the parts of
its job's sources that run here unpickled.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.exception_text import name_of, text_of
from penstock.common.jobs.job_gateway import SavepointWish, StateQuestion
from penstock.common.options.cluster import ATTACHED, SESSION, TARGET
from penstock.dependencies.worker_environment import MANIFEST
from penstock.errors import (
    JobExecutionError,
    LeadershipLostError,
    MessageTooLargeError,
    PenstockError,
    StateReadError,
)
from penstock.graph.job_graph_serializer import deserialize_job_graph
from penstock.high_availability.services import HighAvailabilityServices
from penstock.jobmaster.ended_job_gateway import EndedJobGateway
from penstock.jobmaster.user_failure import UnopenedFailureError, unopened
from penstock.rpc import session_messages as messages
from penstock.rpc.blob_messages import BlobChunk
from penstock.rpc.connection import Connection
from penstock.rpc.frames import MAX_FRAME_BYTES
from penstock.rpc.host_messages import difference, own_versions
from penstock.rpc.message import encode_message
from penstock.rpc.messages import CODE_CHUNK_BYTES, TaskFailure
from penstock.serialization.codec import codec_for
from penstock.session.job_graph_store import blobs_of
from penstock.session.keeping_alive import keep_alive

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.blob_server import BlobWriter
    from penstock.jobmaster.dispatcher import Dispatcher
    from penstock.jobmaster.local_job_gateway import LocalJobGateway
    from penstock.session.job_graph_store import JobGraphStore

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
"""Time that a request for results waits before the program must repeat it."""

TAKE_UP_TIMEOUT_S: Final = 60.0
"""Time that a request for a job waits for the jobs of a former jobmanager."""

_OF_THE_PROGRAM: Final = (TARGET.key, SESSION.key, ATTACHED.key)
"""Options that have already been applied when a job arrives here."""


class ClientService:
    """Serves the role "client" of a session."""

    def __init__(
        self,
        name: str,
        dispatcher: Dispatcher,
        stop: Callable[[], None],
        stored: JobGraphStore | None = None,
    ) -> None:
        """Create the service.

        Args:
            name: The session's name.
            dispatcher: Runs the jobs.
            stop: Ends the session; returns at once.
            stored: The jobs that the next jobmanager resumes; None if they end with this one.
        """
        self.name = name
        self.dispatcher = dispatcher
        self.stop = stop
        self.stored = stored
        self._is_ending = False
        self._has_taken_up = threading.Event()
        if stored is None:
            self._has_taken_up.set()
        self._lock = threading.Lock()
        self._jobs: dict[bytes, LocalJobGateway] = {}
        self._connections: set[Connection] = set()

    def serve(self, sock: socket.socket, peer: str) -> None:
        """Serve one connection."""
        keep_alive(sock)
        client = _Client(self, sock, peer)
        with self._lock:
            self._connections.add(client.connection)
        client.connection.start()

    def retire(self) -> None:
        """Leave the jobs to the next jobmanager from now on, if there is one."""
        self._is_ending = True

    def close(self) -> None:
        """Send queued messages, which report ended jobs, and drop all connections."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close_after_flush("the session ends")

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
        with self._lock:
            self._connections.discard(connection)

    def job(self, job_id: bytes) -> JobGateway:
        """Return the gateway of a job that is still referenced.

        Raises:
            JobExecutionError: There is none.
            LeadershipLostError: The next jobmanager has it.
        """
        if self._is_ending and self.stored is not None:
            raise LeadershipLostError(
                f"this jobmanager of the session {self.name} ends; the next one resumes its jobs"
            )
        if not self._has_taken_up.wait(TAKE_UP_TIMEOUT_S):
            raise JobExecutionError(
                f"the session {self.name} is still reading what the former jobmanager left"
            )
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None and self.stored is not None:
            result = self.stored.records(job_id).results.get()
            if result is not None:
                return EndedJobGateway(job_id, result, "submit it again to run it again")
        if job is None:
            raise JobExecutionError(f"the session {self.name} has no job {job_id.hex()}")
        return job

    def submit(self, message: messages.SubmitJob, owner: object) -> JobGateway:
        """Start a job whose blobs have arrived.

        Raises:
            PenstockError: It cannot be started; says why.
        """
        blobs = self.dispatcher.blobs
        try:
            graph = deserialize_job_graph(blobs.read(message.graph, owner))
        except OSError as error:
            raise JobExecutionError(f"the job arrived incomplete: {error}") from error
        if self.stored is None:
            return self._start(graph, message)
        HighAvailabilityServices.check_job(
            graph.configuration,
            takes_checkpoints=graph.checkpoint_interval_ms is not None,
            collects=bool(message.collect_ids),
        )
        try:
            # First, so that an accepted job is not lost.
            self.stored.put(
                graph.job_id, message, graph.configuration, lambda key: blobs.read(key, owner)
            )
        except OSError as error:
            raise JobExecutionError(
                f"the job is not started, for it cannot be kept for the next jobmanager: {error}"
            ) from error
        try:
            return self._start(graph, message)
        except BaseException:
            self.stored.remove(graph.job_id)
            raise

    def take_up(self) -> None:
        """Start the jobs that a former jobmanager has left, from their last checkpoints."""
        assert self.stored is not None
        for job_id, message in self.stored.jobs().items():
            owner = object()
            try:
                for key in blobs_of(message):
                    self.dispatcher.blobs.put(partial(self.stored.write_blob, key), owner)
                graph = deserialize_job_graph(self.dispatcher.blobs.read(message.graph, owner))
                job = self._start(graph, message)
            except (PenstockError, OSError):
                logger.exception(
                    "job %s of the former jobmanager cannot be resumed; it is kept for the next",
                    job_id.hex(),
                )
                self.dispatcher.blobs.release(owner)
                continue
            job.add_done_callback(partial(self._taken_up_ended, owner))
            logger.info("job %s (%s) is resumed", job.job_name, job_id.hex())
        self._has_taken_up.set()

    def _taken_up_ended(self, owner: object, job: JobGateway) -> None:
        # Later requests for the job get the recorded result.
        self.forget(job.job_id)
        self.dispatcher.blobs.release(owner)

    def _start(self, graph: JobGraph, message: messages.SubmitJob) -> LocalJobGateway:
        configuration = dict(graph.configuration)
        for key in _OF_THE_PROGRAM:
            configuration.pop(key, None)
        graph.configuration = configuration
        launch = dict(message.launch)
        if not message.manifest.is_empty:
            launch[MANIFEST] = msgspec.to_builtins(message.manifest)
        try:
            job = self.dispatcher.submit(
                graph,
                message.collect_ids,
                records=None if self.stored is None else self.stored.records(graph.job_id),
                launch_extras=launch,
                rebuilt=unopened,
            )
        except (ImportError, AttributeError) as error:
            raise JobExecutionError(
                f"the session cannot run the sources of job {graph.name!r}: their splits are made "
                f"in the jobmanager's process, which has not all of their code ({error}); define "
                "such a source in the program's main module, or install its module there"
            ) from error
        with self._lock:
            self._jobs[graph.job_id] = job
        if self.stored is not None:
            job.add_done_callback(self._stored_ended)
        return job

    def _stored_ended(self, job: LocalJobGateway) -> None:
        # Another jobmanager resumes suspended jobs.
        if self.stored is not None and job.status().is_globally_terminal:
            self.stored.ended(job.job_id)

    def cancel_all(self, grace_s: float) -> None:
        """Cancel the jobs, which no other jobmanager resumes, and wait for their ends."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if not job.done()]
        for job in jobs:
            job.cancel()
        deadline_s = time.monotonic() + grace_s
        for job in jobs:
            if not job.join(max(0.0, deadline_s - time.monotonic())):
                logger.error(
                    "job %s (%s) is not cancelled within %g s: the next jobmanager takes it up",
                    job.job_name,
                    job.job_id.hex(),
                    grace_s,
                )

    def forget(self, job_id: bytes) -> None:
        """Forget an ended job whose program is gone."""
        with self._lock:
            self._jobs.pop(job_id, None)
        self.dispatcher.collect.forget(job_id)


class _Client:
    """One connection; its requests are answered one after the other, in its own thread."""

    def __init__(self, service: ClientService, sock: socket.socket, peer: str) -> None:
        self._service = service
        self._peer = peer
        self._is_accepted = False
        self._owner = object()
        self._blobs = service.dispatcher.blobs
        self._job: JobGateway | None = None
        self._attached = False
        self._incoming: BlobWriter | None = None
        self.connection = Connection(
            sock, messages.from_client_decoder(), self._handle_all, self._left, f"client {peer}"
        )
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            messages.PutBlob: self._put_blob,
            BlobChunk: self._blob_chunk,
            messages.SubmitJob: self._submit,
            messages.FollowJob: self._follow,
            messages.Detach: self._detach,
            messages.AskJob: self._ask_job,
            messages.CancelJob: self._cancel,
            messages.AskAccumulators: self._accumulators,
            messages.AskState: self._state,
            messages.AskSavepoint: self._savepoint,
            messages.TakeResults: self._take_results,
            messages.StopSession: self._stop,
        }

    def _handle_all(self, received: list[Any]) -> None:
        for message in received:
            self._handle(message)

    def _handle(self, message: messages.FromClient) -> None:
        if isinstance(message, messages.ClientHello):
            refusal = difference(own_versions(), message.versions, "program")
            if refusal is not None:
                self._refuse("ConfigurationError", refusal)
                return
            self._is_accepted = True
            keeps_jobs = self._service.stored is not None
            self.connection.send(messages.ClientAccepted(self._service.name, keeps_jobs))
        elif not self._is_accepted:
            self._refuse(
                "JobExecutionError", "the first message of a connection must be a ClientHello"
            )
        else:
            try:
                self._handlers[type(message)](message)
            except PenstockError as error:
                self._refuse(type(error).__name__, str(error))
            except Exception as error:
                logger.exception("a request of %s failed", self._peer)
                self._refuse("JobExecutionError", f"{type(error).__name__}: {error}")

    def _refuse(self, kind: str, reason: str) -> None:
        self.connection.send(messages.Refused(kind, reason))

    def _left(self, reason: str) -> None:
        self._service.left(self.connection)
        job = self._job
        if job is None:
            self._blobs.release(self._owner)
            return
        if self._attached and not job.done():
            logger.warning("job %s is cancelled: its program is lost (%s)", job.job_name, reason)
            job.cancel()
        job.add_done_callback(lambda ended: self._service.forget(ended.job_id))

    # ---- questions ---------------------------------------------------------------------------

    def _put_blob(self, message: messages.PutBlob) -> None:
        del message
        if self._job is not None or self._incoming is not None:
            raise JobExecutionError("a blob was sent after the job, or within another blob")
        self._incoming = self._blobs.begin(self._owner)

    def _blob_chunk(self, message: BlobChunk) -> None:
        if self._incoming is None:
            raise JobExecutionError("a part of a blob was sent before its beginning")
        self._incoming.write(message.data)
        if message.last:
            self.connection.send(messages.BlobKept(self._incoming.finish()))
            self._incoming = None

    def _submit(self, message: messages.SubmitJob) -> None:
        if self._job is not None:
            raise JobExecutionError("this connection has a job already")
        job = self._service.submit(message, self._owner)
        self._job = job
        self._attached = message.attached
        job.add_done_callback(lambda _: self._blobs.release(self._owner))
        self.connection.send(messages.JobAccepted())
        logger.info("job %s (%s) was submitted from %s", job.job_name, job.job_id.hex(), self._peer)
        job.add_done_callback(self._ended)

    def _follow(self, message: messages.FollowJob) -> None:
        if self._job is not None:
            raise JobExecutionError("this connection has a job already")
        self._job = job = self._service.job(message.job_id)
        self._attached = message.attached
        self.connection.send(messages.JobAccepted())
        job.add_done_callback(self._ended)

    def _detach(self, message: messages.Detach) -> None:
        del message
        self._attached = False

    def _ended(self, job: JobGateway) -> None:
        self.connection.send(_ended(job))

    def _ask_job(self, message: messages.AskJob) -> None:
        job = self._service.job(message.job_id)
        self.connection.send(messages.JobState(job.status().value, job.progress()))

    def _cancel(self, message: messages.CancelJob) -> None:
        self._service.job(message.job_id).cancel()
        self.connection.send(messages.Done())

    def _accumulators(self, message: messages.AskAccumulators) -> None:
        values = self._service.job(message.job_id).accumulators()
        self.connection.send(messages.Values(codec_for(None).encode(values)))

    def _state(self, message: messages.AskState) -> None:
        read = codec_for(None).decode
        keys: Any = None if message.keys is None else tuple(read(message.keys))
        filters: Any = tuple(
            (tuple(path), sign, value) for path, sign, value in read(message.filters)
        )
        question = StateQuestion(
            message.operator, message.state, keys, filters, message.cursor, message.limit
        )
        try:
            found = self._service.job(message.job_id).read_state(question)
        except StateReadError as error:
            # The program knows this class, but no subclass of it.
            self._refuse(StateReadError.__name__, str(error))
            return
        self.connection.send(
            messages.StateEntries(found.entries, found.cursor, found.checkpoint, dict(found.fields))
        )

    def _savepoint(self, message: messages.AskSavepoint) -> None:
        written: Any = message.savepoint_format
        end: Any = message.end
        wish = SavepointWish(message.directory, written, end, message.drains)

        def answer(future: Future[str]) -> None:
            error = future.exception()
            if error is None:
                self.connection.send(messages.Path(future.result()))
            else:
                self._refuse(type(error).__name__, str(error))

        self._service.job(message.job_id).take_savepoint(wish).add_done_callback(answer)

    def _take_results(self, message: messages.TakeResults) -> None:
        job = self._service.job(message.job_id)
        try:
            batch = job.collect(message.collect_id).take(POLL_S)
        except KeyError:
            raise JobExecutionError(f"the job collects no {message.collect_id!r}") from None
        except TimeoutError:
            self.connection.send(messages.NotYet())
            return
        if batch is None:
            self.connection.send(messages.Done())
            return
        for start in range(0, max(1, len(batch)), CODE_CHUNK_BYTES):
            part = batch[start : start + CODE_CHUNK_BYTES]
            self.connection.send(BlobChunk(part, start + CODE_CHUNK_BYTES >= len(batch)))

    def _stop(self, message: messages.StopSession) -> None:
        del message
        self.connection.send(messages.Done())
        self._service.stop()


def _ended(job: JobGateway) -> messages.JobEnded:
    error = job.exception()
    try:
        values = codec_for(None).encode(job.accumulators())
        if len(values) > MAX_FRAME_BYTES // 2:
            raise JobExecutionError(
                f"the accumulators have {len(values)} bytes, of which a session sends up to "
                f"{MAX_FRAME_BYTES // 2}"
            )
    except BaseException as failure:  # raised by objects in the program's accumulators
        values = codec_for(None).encode({})
        error = error or failure
    status, runtime_ms = job.status().value, job.runtime_ms()
    failed = None if error is None else _failed(error)
    message = messages.JobEnded(status, runtime_ms, values, failed)
    try:
        encode_message(message)
    except MessageTooLargeError:
        if failed is None:
            raise
        # The exception itself is too large; its class, text and traceback are not.
        bare = msgspec.structs.replace(failed.failure, pickled=None)
        message = messages.JobEnded(
            status, runtime_ms, values, messages.Failed(bare, failed.task_name)
        )
    return message


def _failed(error: BaseException) -> messages.Failed:
    if isinstance(error, UnopenedFailureError):
        return messages.Failed(error.task_failure, error.task_name)
    failure = TaskFailure(*name_of(error), text_of(error), "", "", -1)
    return messages.Failed(failure, None)
