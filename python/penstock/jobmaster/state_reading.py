"""Reads keyed state of a running job: finds its tasks, and asks the workers."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.names import nearest_hint
from penstock.common.jobs.job_gateway import StateAnswer
from penstock.errors import StateReadError
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.workers.inspections import InspectionError
from penstock.rpc.inspection_messages import ReadState
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.jobs.job_gateway import StateQuestion
    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import JobSnapshot
    from penstock.rpc.inspection_messages import Inspected

SNAPSHOT_TIMEOUT_S: Final = 10.0
STATE_TIMEOUT_MS: Final = 10_000
ASK_TIMEOUT_S: Final = 20.0
MAX_PAGE_ROWS: Final = 10_000


class AmbiguousOperatorError(StateReadError):
    """Several operators have the name."""


class UnknownStateError(StateReadError):
    """There is no such operator or state."""


def operator_id(job: JobSnapshot, name: str) -> bytes:
    """Return the id of the operator with this uid, id or unique name.

    Raises:
        StateReadError: There is none, or several.
    """
    operators = [one for vertex in job.vertices for one in vertex.operators]
    for named in (
        [one for one in operators if one.uid == name or one.id.hex() == name],
        [one for one in operators if one.name == name],
    ):
        if len({one.id for one in named}) > 1:
            raise AmbiguousOperatorError(
                f"several operators are named {name[:100]!r}: give the uid or id"
            )
        if named:
            return named[0].id
    known = ", ".join(sorted({one.uid or one.name for one in operators}))
    message = f"the job has no operator {name[:100]!r}, but: {known}"[:2000]
    names = [text for one in operators for text in (one.uid, one.name) if text]
    raise UnknownStateError(message + nearest_hint(name, names))


class StateReader:
    """Answers questions about the state of one job; any thread but the main one.

    Args:
        gateway: The job's cluster.
        job_id: The job.
    """

    def __init__(self, gateway: ClusterGateway, job_id: bytes) -> None:
        self._gateway = gateway
        self._job_id = job_id

    def read(self, question: StateQuestion) -> StateAnswer:
        """Return the values of keys from all subtasks, or a page of one of them.

        Raises:
            StateReadError: There is no such operator or state, the job does not run, or a task
                does not answer.
        """
        job = self._gateway.snapshot().result(SNAPSHOT_TIMEOUT_S).job(self._job_id)
        if job is None:
            raise StateReadError(f"the job {self._job_id.hex()} does not run")
        wanted = operator_id(job, question.operator)
        current = [
            one.current
            for vertex in job.vertices
            if any(operator.id == wanted for operator in vertex.operators)
            for one in vertex.subtasks
        ]
        running = [
            one
            for one in current
            if one.state is ExecutionState.RUNNING and one.executor_id is not None
        ]
        if len(running) < len(current):
            raise StateReadError(
                f"{len(current) - len(running)} of the {len(current)} subtasks of "
                f"{question.operator!r} do not run: ask again when they do, or read the last "
                "checkpoint"
            )
        subtask, position, scan = _cursor(question.cursor, len(running))
        asked = running[subtask : subtask + 1] if question.keys is None else running
        serializer: TypeSerializer[Any] = TypeSerializer()
        keys = None if question.keys is None else serializer.serialize(list(question.keys))
        filters = serializer.serialize([list(one) for one in question.filters])

        def request(attempt_id: bytes) -> Callable[[int], ReadState]:
            return lambda number: ReadState(
                number,
                attempt_id,
                (wanted,),
                question.state,
                keys,
                filters if question.filters else b"",
                position,
                scan,
                max(1, min(question.limit, MAX_PAGE_ROWS)),
                STATE_TIMEOUT_MS,
            )

        futures = [
            self._gateway.inspections.ask(str(one.executor_id), request(one.attempt_id))
            for one in asked
        ]
        answers: list[Inspected] = []
        for future in futures:
            try:
                answers.append(future.result(ASK_TIMEOUT_S))
            except (InspectionError, FutureTimeoutError) as error:
                raise StateReadError(f"{question.operator!r} cannot be read: {error}") from None
        states = {name for answer in answers for name in answer.states}
        if question.state not in states:
            known = ", ".join(sorted(states)) or "none"
            raise UnknownStateError(
                f"{question.operator!r} has no keyed state {question.state[:100]!r}, but: {known}"
                + nearest_hint(question.state, states)
            )
        latest = job.checkpoints.latest.get("completed")
        answer = StateAnswer(
            tuple(chunk for one in answers for chunk in one.entries),
            None,
            None if latest is None or latest.is_discarded else latest.external_path,
            answers[0].fields if question.keys is None else {},
        )
        if question.keys is not None:
            return answer
        last = answers[0]
        if not last.is_at_end:
            return replace(answer, cursor=f"{subtask}:{last.position}:{last.scan}")
        return replace(answer, cursor=f"{subtask + 1}:0:0" if subtask + 1 < len(running) else None)


def _cursor(text: str, parallelism: int) -> tuple[int, int, int]:
    """Return the subtask, the number of entries before the page, and the number of the scan."""
    parts = (text or "0:0:0").split(":")
    is_cursor = len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts)
    subtask, position, scan = (int(part[:18]) for part in parts) if is_cursor else (-1, 0, 0)
    if not 0 <= subtask < parallelism or (position and not scan):
        raise UnknownStateError(
            f"{text[:100]!r} is not a cursor of this scan: start the scan again without a cursor"
        )
    return subtask, position, scan
