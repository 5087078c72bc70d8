"""Converts a received failure back to the exception that ``execute()`` raises."""

from __future__ import annotations

import asyncio
import importlib
import logging
import pickle
import re
from typing import TYPE_CHECKING, Final

from penstock.common.exception_text import NO_TEXT, annotate, caused_by, name_of, text_of
from penstock.errors import JobExecutionError
from penstock.jobmaster.scheduling.failure import Failure
from penstock.rpc.messages import TaskFailure

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID

logger = logging.getLogger(__name__)

_HOPELESS: Final = frozenset(
    {
        "penstock.errors.ConfigurationError",
        "penstock.errors.InvalidProgramError",
        "penstock.errors.UndecodableRecordError",
        "penstock.errors.JobCodeError",
        "penstock.errors.WrongArgumentError",
    }
)
"""Errors of program or configuration, which a restart would repeat."""

_NOT_FOUND: Final = "penstock.errors.PartitionNotFoundError"
_PARTITION: Final = re.compile(r"\bpartition ([0-9a-f]{120})\b")

#: Exceptions that control the interpreter, and their descriptions.  If `execute()` raised them,
#: they would act in the driver: end it silently, look like Ctrl-C, or end a loop of the program.
_CONTROL_FLOW: Final[dict[type[BaseException], str]] = {
    SystemExit: "sys.exit() ends neither a job nor its worker; return, or raise what went wrong",
    KeyboardInterrupt: "it was user code that raised it, not Ctrl-C",
    GeneratorExit: "it means that a generator was closed",
    asyncio.CancelledError: "it means that a task of asyncio was cancelled",
    StopIteration: "it is what next() raises at the end of an iterator; give next() a default",
    StopAsyncIteration: "it is what anext() raises at the end; give anext() a default",
}


class RemoteFailure(JobExecutionError):
    """Remote location of an exception: cause of the exception that reaches the caller.

    Its text names operator and subtask and includes the traceback of the worker.
    """


class UnopenedFailureError(JobExecutionError):
    """A pickled exception of user code, in a process other than that of its program.

    Attributes:
        task_failure: Its description; only the program may load its pickle.
        task_name: The subtask.
    """

    def __init__(self, task_failure: TaskFailure, task_name: str) -> None:
        """Create the error without loading the pickle."""
        name = f"{task_failure.module}.{task_failure.qualname}"
        super().__init__(f"{name}: {task_failure.message}")
        self.task_failure = task_failure
        self.task_name = task_name


def failure_of(task_failure: TaskFailure, task_name: str, executor_id: str) -> Failure:
    """Return the failure as the state machines pass it on."""
    name = f"{task_failure.module}.{task_failure.qualname}"
    return Failure(
        exception_name=name,
        message=task_failure.message,
        stack_trace=task_failure.traceback,
        recoverable=name not in _HOPELESS,
        task_name=task_name,
        executor_id=executor_id,
        missing_partitions=_missing_partitions(name, task_failure.message),
        labels=_labels(task_failure),
        payload=task_failure,
    )


def _missing_partitions(name: str, message: str) -> frozenset[bytes]:
    """Return the partition that a consumer did not find, parsed from the error's text."""
    named = _PARTITION.search(message) if name == _NOT_FOUND else None
    return frozenset() if named is None else frozenset([bytes.fromhex(named[1])])


def _labels(task_failure: TaskFailure) -> dict[str, str]:
    """Return the place in the program: the operator, and the line that created it."""
    labels = {"operator": task_failure.operator}
    if task_failure.location is not None:
        labels["location"] = task_failure.location
    return labels


def exception_of(failure: Failure) -> BaseException:
    """Return the exception to raise for a failed job.

    A user's exception is rebuilt as itself, with the place and the remote traceback as its cause
    and as a note; one that would control the driver's interpreter becomes a `JobExecutionError`.
    Only the driver that shipped the job calls this: the pickle comes from its own workers, which
    proved the job's token.
    """
    payload = failure.payload
    if isinstance(payload, BaseException):
        return without_control_flow(payload)
    if not isinstance(payload, TaskFailure):
        return JobExecutionError(str(failure))
    where = f"in operator {payload.operator!r}, task {failure.task_name}"
    if payload.location is not None:
        where += f", made at {payload.location}"
    error = _rebuild(payload)
    if error is None:
        name = f"{payload.module}.{payload.qualname}"
        return JobExecutionError(f"{name}: {payload.message}\n{where}\n{payload.traceback}")
    error = without_control_flow(error)
    annotate(error, where)
    caused_by(error, RemoteFailure(f"{where}\n\n{payload.traceback}"))
    return error


def unopened(failure: Failure) -> BaseException:
    """Return `exception_of` the failure, but leave exceptions of user code pickled."""
    payload = failure.payload
    if isinstance(payload, TaskFailure):
        return UnopenedFailureError(payload, failure.task_name or "")
    return exception_of(failure)


def exception_of_task(task_failure: TaskFailure, task_name: str) -> BaseException:
    """Return the program's own exception, which `unopened` left pickled."""
    return exception_of(failure_of(task_failure, task_name, ""))


def attempt_name(task_name: str, attempt_id: ExecutionAttemptID, parallelism: int) -> str:
    """Return the name of a subtask in messages: "Map (2/4)"."""
    return f"{task_name} ({attempt_id.subtask + 1}/{parallelism})"


def without_control_flow(error: BaseException) -> BaseException:
    """Return the exception, or a `JobExecutionError` for one that controls the interpreter."""
    for kind, explanation in _CONTROL_FLOW.items():
        if issubclass(type(error), kind):
            text = text_of(error)
            failed = JobExecutionError(
                f"user code raised {name_of(error)[1]}{text and f': {text}'}; {explanation}"
            )
            failed.__cause__ = error
            return failed
    return error


def _rebuild(failure: TaskFailure) -> BaseException | None:
    """Return the exception itself; else one of its class with its text; else None."""
    if failure.message == NO_TEXT:
        return None  # its text would raise in the driver as it did in the worker
    if failure.pickled is not None:
        try:
            error = pickle.loads(failure.pickled)
        except BaseException:  # the class is the user's, and so is its constructor
            logger.debug("the pickled exception cannot be read here", exc_info=True)
        else:
            if isinstance(error, BaseException):
                return error
    try:
        kind: object = importlib.import_module(failure.module)
        for part in failure.qualname.split("."):
            kind = getattr(kind, part)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind(failure.message)
    except BaseException:  # the class is the user's, and so is its constructor
        logger.debug("%s.%s cannot be rebuilt", failure.module, failure.qualname, exc_info=True)
    return None
