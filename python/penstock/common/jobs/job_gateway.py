"""JobGateway: the one interface to a job, for the program, the REST interface and a session.

`LocalJobGateway` is in the process of the job's JobMaster, `RemoteJobGateway` sends requests to the
job's session, and `EndedJobGateway` reports on a job that ended in a former driver.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from penstock.common.calls.names import checked_size
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from enum import Enum
    from typing import Self

    from penstock.common.jobs.job_progress import JobProgress

OperatorTotals: TypeAlias = "Mapping[tuple[bytes, str], Mapping[str, int]]"
"""Sums over the subtasks: by vertex id, operator name and metric name."""

SavepointFormatType = Literal["CANONICAL", "NATIVE"]
"""Format of a savepoint; both produce the same bytes."""


@dataclass(frozen=True)
class SavepointWish:
    """Request for a savepoint of a job.

    Attributes:
        directory: The parent of the savepoint's own directory; None for the configured one.
        savepoint_format: Its format.
        end: How the savepoint ends the job: not at all, by stopping or by cancelling it.
        drains: True to end event time before the job stops.
    """

    directory: str | None
    savepoint_format: SavepointFormatType
    end: Literal["", "stop", "cancel"] = ""
    drains: bool = False

    def __post_init__(self) -> None:
        directory: object = self.directory
        if not isinstance(directory, str | None) or directory == "":
            raise WrongArgumentError(
                f"the directory of a savepoint must be a path or URL, got {directory!r}"
            )
        if directory is not None:
            checked_size("the directory of a savepoint", directory)
        if self.savepoint_format not in ("CANONICAL", "NATIVE"):
            raise WrongArgumentError(
                "a savepoint's format must be 'CANONICAL' or 'NATIVE', got "
                f"{self.savepoint_format!r}"
            )


@dataclass(frozen=True)
class StateQuestion:
    """Request for entries of a keyed state of a running job.

    Attributes:
        operator: The uid, id or name of the operator.
        state: The name of the state.
        keys: The keys to look up; None for a page of a scan.
        filters: Conditions that all rows of a page fulfil: the path of a column, such as
            ``("value", "price")``, a comparison, and a value.
        cursor: The end of the previous page; empty for the first one.
        limit: The greatest number of rows of a page.
    """

    operator: str
    state: str
    keys: tuple[Any, ...] | None = None
    filters: tuple[tuple[tuple[str, ...], str, Any], ...] = ()
    cursor: str = ""
    limit: int = 5000


@dataclass(frozen=True)
class StateAnswer:
    """Entries of a keyed state.

    Attributes:
        entries: Serialised lists of rows: key, namespace and value.
        cursor: The end of the page; None after the last one.
        checkpoint: The path of the job's last complete checkpoint, or None.
        fields: The fields that the filters name, with what is wrong with each: empty if an entry
            has it.
    """

    entries: tuple[bytes, ...]
    cursor: str | None
    checkpoint: str | None
    fields: Mapping[str, str] = field(default_factory=dict)


class CollectResults(Protocol):
    """The results of one collect sink."""

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """Return the next batch, None at the end: records as [i32 length][codec bytes]."""

    def close(self) -> None:
        """Stop receiving results."""


class JobGateway(ABC):
    """One job from its submission to its end.  All methods may be called by any thread.

    Attributes:
        job_id: Its id.
        job_name: Its name.
    """

    def __init__(self, job_id: bytes, job_name: str) -> None:
        """Create the gateway of a job that has not ended."""
        self.job_id = job_id
        self.job_name = job_name
        self._started_s = time.monotonic()
        self._runtime_ms: int | None = None
        self._error: BaseException | None = None
        self._final_accumulators: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._callbacks: list[Callable[[Any], None]] = []

    # ---- questions and commands --------------------------------------------------------------

    @abstractmethod
    def status(self) -> Enum:
        """Return the job's status; its name is that of a `JobStatus`."""

    @abstractmethod
    def cancel(self) -> Future[None]:
        """Request cancellation; the future is done when the JobMaster has started it."""

    @abstractmethod
    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Request a savepoint; the future has its path, or fails with a `CheckpointError`."""

    @abstractmethod
    def accumulators(self) -> dict[str, Any]:
        """Return the current accumulators; after the end of the job, the last ones."""

    @abstractmethod
    def progress(self) -> JobProgress:
        """Return the job's progress; after the end of the job, the last known one."""

    @abstractmethod
    def operator_totals(self) -> OperatorTotals:
        """Return the counts that the job's operators reported last."""

    @abstractmethod
    def read_state(self, question: StateQuestion) -> StateAnswer:
        """Return entries of a keyed state, as tasks have them now.

        Raises:
            StateReadError: The job does not run, has no such state, or does not answer.
        """

    @abstractmethod
    def collect(self, collect_id: str) -> CollectResults:
        """Return the results of one of the job's collect sinks.

        Raises:
            KeyError: The job was not submitted with this collect id.
        """

    # ---- its end -----------------------------------------------------------------------------

    def done(self) -> bool:
        """Return whether the job has ended, and its own cluster, if it had one, has shut down."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return whether the job ended in time.

        An interruption (Ctrl-C) cancels the job before it is passed on.
        """
        try:
            return self._ended.wait(timeout_s)
        except BaseException:
            self._interrupted()
            raise

    def join(self, timeout_s: float) -> bool:
        """Wait as `wait` does; an interruption leaves the job alone."""
        return self._ended.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the end and return the accumulators.

        Raises:
            TimeoutError: The job did not end in time; it continues.
            JobCancelledError: The job was cancelled.
            Exception: The job failed: the exception of the user's function as itself, or a
                `JobExecutionError`.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"job {self.job_name!r} did not end within {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self._final_accumulators

    def exception(self) -> BaseException | None:
        """Return the exception that `result` raises for a job that has ended."""
        return self._error

    def runtime_ms(self) -> int:
        """Return the time since the submission, or from it to the end."""
        if self._runtime_ms is not None:
            return self._runtime_ms
        return int((time.monotonic() - self._started_s) * 1000)

    def add_done_callback(self, callback: Callable[[Self], None]) -> None:
        """Call back when the job has ended: from the ending thread, or now if it has ended."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    # ---- for implementations -----------------------------------------------------------------

    def complete(self) -> None:
        """Wake the waiting callers."""
        with self._lock:
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _note_end(
        self, error: BaseException | None, accumulators: dict[str, Any], runtime_ms: int | None
    ) -> None:
        """Record how the job ended, before `complete`; a runtime of None ends it now."""
        self._error = error
        self._final_accumulators = accumulators
        self._runtime_ms = self.runtime_ms() if runtime_ms is None else runtime_ms

    @property
    def _has_result(self) -> bool:
        return self._runtime_ms is not None

    @abstractmethod
    def _interrupted(self) -> None:
        """End the job, because waiting for it was interrupted."""
