"""Operations on a job: cancel, stop, savepoints, rescaling; and their later answers.

A trigger is answered at once with an id; the outcome is available under that id for `KEEP_S`
seconds after it is known.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.common.jobs.job_gateway import SavepointWish
from penstock.common.options import adaptive, checkpointing
from penstock.errors import InvalidProgramError, RescalingError
from penstock.graph.key_groups import UPPER_BOUND_MAX_PARALLELISM as MAX_PARALLELISM
from penstock.jobmaster.local_job_gateway import JobNotRunningError
from penstock.rest.call import RestError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import JobSnapshot
    from penstock.rest.call import Call, Json

KEEP_S: Final = 300.0
MAX_OPERATIONS: Final = 1000
CALL_TIMEOUT_S: Final = 10.0
_TRIGGER_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass
class Operation:
    """A triggered operation.

    Attributes:
        kind: ``savepoint``, ``checkpoint`` or ``rescaling``.
        job_id: The job.
        outcome: Its result.
        ended_s: When the result was first seen to be known, monotonic.
        was_told: Whether a client has received the result.
    """

    kind: str
    job_id: bytes
    outcome: Future[Any]
    ended_s: float | None = None
    was_told: bool = False


@dataclass
class Operations:
    """The operations of a cluster; used by the server's thread only."""

    _operations: dict[str, Operation] = field(default_factory=dict)

    async def accumulators(
        self,
        gateway: ClusterGateway,
        job: JobSnapshot,
        vertex_id: bytes | None = None,
        subtask: int | None = None,
    ) -> dict[str, Any]:
        """Return the accumulators of a job or a part of it.

        Raises:
            RestError: They cannot be merged.
        """
        future = gateway.job(job.id).ask_accumulators(vertex_id, subtask)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), CALL_TIMEOUT_S)
        except TimeoutError:
            raise
        except Exception as error:
            raise RestError(500, f"the accumulators cannot be merged: {error}") from None

    def trigger(self, kind: str, job_id: bytes, outcome: Future[Any], trigger_id: str) -> None:
        """Store an operation under its id."""
        self._forget_old()
        if len(self._operations) >= MAX_OPERATIONS:
            oldest = next(iter(self._operations))
            del self._operations[oldest]
        self._operations[trigger_id] = Operation(kind, job_id, outcome)

    def knows(self, trigger_id: str) -> bool:
        """Return whether there is an operation with this id."""
        return trigger_id in self._operations

    def status(self, kind: str, job_id: bytes, trigger_id: str) -> Operation:
        """Return the operation with an id.

        Raises:
            RestError: There is none.
        """
        self._forget_old()
        found = self._operations.get(trigger_id)
        if found is None or found.kind != kind or found.job_id != job_id:
            raise RestError(
                404,
                f"There is no {kind} operation with triggerId={trigger_id[:64]}"
                + (f" for job {job_id.hex()}." if job_id else "."),
            )
        return found

    @property
    def untold(self) -> bool:
        """Return whether an outcome has not been fetched by a client yet."""
        return any(not operation.was_told for operation in self._operations.values())

    def _forget_old(self) -> None:
        now_s = time.monotonic()
        for trigger_id, operation in list(self._operations.items()):
            if not operation.outcome.done():
                continue
            if operation.ended_s is None:
                operation.ended_s = now_s
            elif now_s - operation.ended_s > KEEP_S:
                del self._operations[trigger_id]


async def cancel(call: Call) -> Json:
    """Cancel a job."""
    call.choice("mode", "cancel")
    future = call.gateway.job(call.job().id).cancel()
    await asyncio.wait_for(asyncio.wrap_future(future), CALL_TIMEOUT_S)
    return {}


async def end_cluster(call: Call) -> Json:
    """Cancel all jobs, and end the cluster; a session ends at once."""
    for job in call.cluster.jobs:
        cancelled = call.gateway.job(job.id).cancel()
        await asyncio.wait_for(asyncio.wrap_future(cancelled), CALL_TIMEOUT_S)
    if call.gateway.end_session is not None:
        call.gateway.end_session()
    return {}


async def rescale(call: Call) -> Json:
    """Change the parallelism of a running job, which restarts from a new checkpoint.

    The answer has a ``request-id``, under which ``/jobs/:jobid/rescaling/:triggerid`` reports the
    outcome.  A parallelism out of range is answered with 400, a request that the job cannot follow
    with 409.
    """
    job = call.job()
    given = call.query.get("parallelism", [""])[-1]
    if not given.isdigit() or not 1 <= int(given[:9]) <= MAX_PARALLELISM:
        raise RestError(
            400, f"parallelism must be a number from 1 to {MAX_PARALLELISM}, got {given[:64]!r}"
        )
    trigger_id = trigger_id_of(call)
    if not call.operations.knows(trigger_id):
        outcome = await _rescaled(call, job.id, int(given))
        call.operations.trigger("rescaling", job.id, outcome, trigger_id)
    return {"request-id": trigger_id}


async def require_resources(call: Call) -> Json:
    """Set the parallelism of each vertex of a job.

    A vertex gets the upper bound, or in an adaptive job as many subtasks as there are slots for.
    The answer does not wait until the tasks run.
    Incomplete or invalid bounds are answered with 400, a request that the job cannot follow with
    409.
    """
    job = call.job()
    wish: dict[bytes, int] = {}
    for name, requirement in call.body.items():
        try:
            bounds = requirement["parallelism"]
            least, most = bounds["lowerBound"], bounds["upperBound"]
            vertex_id = bytes.fromhex(name)
        except (TypeError, KeyError, ValueError):
            raise RestError(
                400,
                f"{name[:64]!r}: write the bounds of a vertex as "
                '{"<vertex id>": {"parallelism": {"lowerBound": 1, "upperBound": 2}}}',
            ) from None
        if type(least) is not int or type(most) is not int or not 1 <= least <= most:
            raise RestError(400, f"{name[:64]!r}: the bounds must be numbers, 1 <= lower <= upper")
        if least > 1 and adaptive.SCHEDULER.read(job.configuration) == "Adaptive":
            raise RestError(
                400,
                f"{name[:64]!r}: the lower bound of an adaptive job is 1: it runs if there is a "
                "slot for each slot sharing group",
            )
        wish[vertex_id] = most
    missing = sorted({vertex.id for vertex in job.vertices} - wish.keys())
    if missing:
        raise RestError(400, f"the body has no bounds for vertex {missing[0].hex()}")
    await _rescaled(call, job.id, wish)
    return {}


async def _rescaled(call: Call, job_id: bytes, wish: int | dict[bytes, int]) -> Future[None]:
    accepted = call.gateway.job(job_id).rescale(wish)
    try:
        return await asyncio.wait_for(asyncio.wrap_future(accepted), CALL_TIMEOUT_S)
    except (RescalingError, JobNotRunningError) as error:
        raise RestError(409, str(error)) from None


def rescaling_status(call: Call) -> Json:
    """Return whether a rescaling is in progress or completed, and the cause if it failed."""
    return operation_status(call, "rescaling", call.job().id, None)


def no_submission(call: Call) -> Json:  # noqa: ARG001
    """Answer 501: a job is submitted by running its program."""
    raise RestError(501, "submit a job by running its program: penstock run PROGRAM")


def trigger_savepoint(call: Call) -> Json:
    """Take a savepoint of a job, and cancel the job after it if ``cancel-job`` is true.

    The answer has a ``request-id``, under which ``/jobs/:jobid/savepoints/:triggerid`` reports the
    outcome.  ``triggerId`` makes a repeated request harmless.
    Without ``target-directory`` and a configured directory, the answer is 400.
    """
    cancels = call.field("cancel-job", bool) or False
    directory = call.field("target-directory", str, "targetDirectory")
    return _savepoint(call, directory, "cancel" if cancels else "")


def stop(call: Call) -> Json:
    """Stop a job with a savepoint; with ``drain``, event time ends first.

    The answer has a ``request-id``, under which ``/jobs/:jobid/savepoints/:triggerid`` reports the
    outcome.  Without ``targetDirectory`` and a configured directory, the answer is 400.
    """
    drains = call.field("drain", bool) or False
    directory = call.field("targetDirectory", str, "target-directory")
    return _savepoint(call, directory, "stop", drains=drains)


def _savepoint(call: Call, directory: str | None, end: Any, *, drains: bool = False) -> Json:
    job, trigger_id = call.job(), trigger_id_of(call)
    if call.operations.knows(trigger_id):
        return {"request-id": trigger_id}
    if directory is None and checkpointing.SAVEPOINT_FOLDER.read(job.configuration) is None:
        raise RestError(
            400,
            f"Config key [{checkpointing.SAVEPOINT_FOLDER.key}] is not set. "
            "Property [targetDirectory] must be provided.",
        )
    try:
        written: Any = call.field("formatType", str) or "CANONICAL"
        wish = SavepointWish(directory, written, end, drains)
    except InvalidProgramError as error:
        raise RestError(400, str(error)) from None
    call.operations.trigger(
        "savepoint", job.id, call.gateway.job(job.id).take_watched_savepoint(wish), trigger_id
    )
    return {"request-id": trigger_id}


def trigger_checkpoint(call: Call) -> Json:
    """Take a checkpoint of a job; ``checkpointType`` is ``CONFIGURED`` or ``FULL``.

    The answer has a ``request-id``, under which ``/jobs/:jobid/checkpoints/:triggerid`` reports the
    outcome.
    """
    job, trigger_id = call.job(), trigger_id_of(call)
    kind = call.field("checkpointType", str) or "CONFIGURED"
    if kind not in ("CONFIGURED", "FULL"):
        raise RestError(400, f"checkpointType must be CONFIGURED or FULL, got {kind!r}")
    if not call.operations.knows(trigger_id):
        outcome = call.gateway.job(job.id).take_checkpoint(full=kind == "FULL")
        call.operations.trigger("checkpoint", job.id, outcome, trigger_id)
    return {"request-id": trigger_id}


def savepoint_status(call: Call) -> Json:
    """Return the ``location`` of a savepoint or of a stop, once it is complete.

    While it is in progress, the status is ``IN_PROGRESS``; an unknown id is answered with 404.
    """
    return operation_status(call, "savepoint", call.job().id, "location")


def checkpoint_status(call: Call) -> Json:
    """Return the ``checkpointId`` of a triggered checkpoint, once it is complete.

    While it is in progress, the status is ``IN_PROGRESS``; an unknown id is answered with 404.
    """
    return operation_status(call, "checkpoint", call.job().id, "checkpointId")


def operation_status(call: Call, kind: str, job_id: bytes, result: str | None) -> Json:
    """Return the status of an operation, with its result under its name if it has one."""
    operation = call.operations.status(kind, job_id, call.path["triggerid"])
    if not operation.outcome.done():
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    operation.was_told = True
    error = operation.outcome.exception()
    answer: dict[str, Any] = {}
    if error is not None:
        answer["failure-cause"] = {
            "class": f"{type(error).__module__}.{type(error).__qualname__}",
            "stack-trace": f"{type(error).__name__}: {error}",
        }
    elif result is not None:
        answer[result] = operation.outcome.result()
    return {"status": {"id": "COMPLETED"}, "operation": answer}


def trigger_id_of(call: Call) -> str:
    """Return the client's id, which makes the trigger idempotent, or a new one."""
    given = call.field("triggerId", str)
    if given is None:
        return os.urandom(16).hex()
    if not isinstance(given, str) or _TRIGGER_ID.fullmatch(given) is None:
        raise RestError(400, f"triggerId must be 32 hexadecimal digits, got {str(given)[:64]!r}")
    return given
