"""Inspection of a cluster's processes: threads, logs, and sampled records."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.names import nearest_hint
from penstock.common.jobs.job_gateway import StateQuestion
from penstock.common.options import rest
from penstock.errors import SerializationError, StateReadError, WrongArgumentError
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.state_reading import (
    MAX_PAGE_ROWS,
    AmbiguousOperatorError,
    StateReader,
    UnknownStateError,
    operator_id,
)
from penstock.jobmaster.workers.inspections import InspectionError
from penstock.jobmaster.workers.log_tails import DRIVER
from penstock.rest.call import RestError, Text
from penstock.rpc.inspection_messages import DumpThreads, LookUpState, SampleRecords
from penstock.state_processor.arrow import rows_of, stream_of
from penstock.taskexecutor.state.state_filters import condition_of_text
from penstock.taskexecutor.worker.inspection import thread_stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.jobs.job_gateway import StateAnswer
    from penstock.jobmaster.snapshots import JobSnapshot
    from penstock.jobmaster.workers.log_tails import LogTail
    from penstock.rest.call import Call, Json
    from penstock.rpc.inspection_messages import Inspected, Inspection, ThreadStack

ASK_TIMEOUT_S: Final = 20.0
SAMPLE_TIMEOUT_MS: Final = 2_000
STATE_TIMEOUT_MS: Final = 10_000
MAX_RECORDS: Final = 100
DEFAULT_RECORDS: Final = 20
MAX_KEYS: Final = 1000
DEFAULT_ROWS: Final = 1000
DRIVER_LOG: Final = "jobmanager.log"
WORKER_LOG: Final = "taskmanager.log"
POSITION_HEADER: Final = "X-Log-Position"
"""End of the log; ``?since=`` that position returns the part behind it."""


def driver_threads(call: Call) -> Json:  # noqa: ARG001
    """Return the stack of every thread of the driver, as texts."""
    return _threads(thread_stacks())


async def worker_threads(call: Call) -> Json:
    """Return the stack of every thread of a TaskExecutor, as texts.

    If the TaskExecutor does not answer, the answer is 503.
    """
    answer = await _ask(call, call.worker().executor_id, DumpThreads)
    return _threads(answer.threads)


def _threads(found: Iterable[ThreadStack]) -> Json:
    return {
        "threadInfos": [
            {"threadName": one.name, "stringifiedThreadInfo": one.text} for one in found
        ]
    }


def driver_log(call: Call) -> Text:
    """Return the last MiB of the driver's log, as plain text.

    ``since`` is a position in the log, as the header ``X-Log-Position`` returns it: then only later
    lines are returned.
    """
    return _log(call, call.gateway.logs.of(DRIVER))


def driver_logs(call: Call) -> Json:
    """Return the name, size in bytes and last change of the driver's only log."""
    return _logs(DRIVER_LOG, call.gateway.logs.of(DRIVER))


def driver_log_named(call: Call) -> Text:
    """Return the driver's log by its name, as ``/jobmanager/log`` does.

    Any other name than ``jobmanager.log`` is answered with 404.
    """
    return _named(call, DRIVER_LOG, driver_log)


def worker_log(call: Call) -> Text:
    """Return the last MiB of a TaskExecutor's log, as plain text.

    ``since`` is a position in the log, as the header ``X-Log-Position`` returns it: then only later
    lines are returned.  The log of a lost TaskExecutor stays readable.
    """
    return _log(call, _worker_tail(call))


def worker_logs(call: Call) -> Json:
    """Return the name, size in bytes and last change of a TaskExecutor's only log."""
    return _logs(WORKER_LOG, _worker_tail(call))


def worker_log_named(call: Call) -> Text:
    """Return a TaskExecutor's log by its name.

    Any other name than ``taskmanager.log`` is answered with 404.
    """
    _worker_tail(call)
    return _named(call, WORKER_LOG, worker_log)


def no_stdout(call: Call) -> Text:
    """Answer 404: standard output is not stored; it goes to that of the program."""
    if "taskmanagerid" in call.path:
        call.worker()
    raise RestError(
        404, "standard output is not stored: workers write to that of the process that runs them"
    )


def _worker_tail(call: Call) -> LogTail:
    """Return the log of the TaskExecutor in the path, which may be lost.

    Raises:
        RestError: There is no such TaskExecutor, and no log of one.
    """
    logs = call.gateway.logs
    return logs.of_worker(call.path["taskmanagerid"]) or logs.of(call.worker().executor_id)


def _log(call: Call, tail: LogTail) -> Text:
    since = call.query.get("since", ["0"])[-1] or "0"
    if not since.isascii() or not since.isdigit():
        raise RestError(400, f"since must be a number, got {since[:100]!r}")
    text, position = tail.read(int(since[:18]))
    return Text(text, {POSITION_HEADER: str(position)})


def _logs(name: str, tail: LogTail) -> Json:
    size = len(tail.read()[0].encode())
    return {"logs": [{"name": name, "size": size, "mtime": round(tail.changed_s * 1000)}]}


def _named(call: Call, known: str, log: Callable[[Call], Text]) -> Text:
    """Return the log with a name, which is only compared and never used as a path."""
    if call.path["filename"] != known:
        raise RestError(404, f"there is no log {call.path['filename'][:100]!r}, but {known!r}")
    return log(call)


async def records(call: Call) -> Json:
    """Return the next records that subtasks of a vertex read over an edge, as texts.

    ``edge`` is the number of the edge into the vertex (default 0), ``subtask`` the subtask (by
    default the first four), ``count`` the number of records of each (default 20, at most 100).
    The answer comes after at most 2 s.
    It is 403 if the option ``penstock.rest.record-samples`` is ``OFF``.
    """
    shown = rest.RECORD_SAMPLES.read(call.gateway.configuration)
    if shown == "OFF":
        raise RestError(403, f"records are not shown ({rest.RECORD_SAMPLES.key})")
    vertex = call.vertex()
    edge = _number(call, "edge", 0, len(vertex.inputs) - 1)
    count = _number(call, "count", DEFAULT_RECORDS, MAX_RECORDS)
    chosen = vertex.subtasks[:4]
    if call.query.get("subtask", [""])[-1]:
        chosen = (vertex.subtasks[_number(call, "subtask", 0, vertex.parallelism - 1)],)

    def request(attempt_id: bytes) -> Callable[[int], Inspection]:
        return lambda number: SampleRecords(
            number, attempt_id, edge, count, SAMPLE_TIMEOUT_MS, shown == "TYPES"
        )

    running = [
        one
        for one in chosen
        if one.current.state is ExecutionState.RUNNING and one.current.executor_id is not None
    ]
    answers = await asyncio.gather(
        *(
            _ask(call, str(one.current.executor_id), request(one.current.attempt_id))
            for one in running
        )
    )
    return {
        "id": vertex.id.hex(),
        "edge": edge,
        "redacted": shown == "TYPES",
        "subtasks": [
            {
                "subtask": one.index,
                "records": [{"text": r.text, "timestamp": r.timestamp_ms} for r in answer.records],
            }
            for one, answer in zip(running, answers, strict=True)
        ],
    }


async def state(call: Call) -> Json:
    """Return the values that a keyed state of an operator has for some keys.

    ``operator`` is the uid, id or unique name of the operator, ``state`` the name of the state, and
    ``key`` a key, which may be repeated up to 1000 times.  Without ``state``, only the names and
    kinds of the operator's states are returned.  Tasks read the state between two records.
    An unknown operator or state is answered with 404, an ambiguous name with 400.
    If a task does not answer, the answer is 503.
    """
    shown = rest.RECORD_SAMPLES.read(call.gateway.configuration)
    if shown == "OFF":
        raise RestError(403, f"values of state are not shown ({rest.RECORD_SAMPLES.key})")
    name, wanted = (call.query.get(one, [""])[-1] for one in ("operator", "state"))
    keys = tuple(call.query.get("key", [""]))
    if len(keys) > MAX_KEYS:
        raise RestError(400, f"key may occur at most {MAX_KEYS} times, not {len(keys)} times")
    operator = _operator(call.job(), name)
    running = [
        one.current
        for vertex in call.job().vertices
        if any(one.id == operator for one in vertex.operators)
        for one in vertex.subtasks
        if one.current.state is ExecutionState.RUNNING and one.current.executor_id is not None
    ]

    def request(attempt_id: bytes) -> Callable[[int], Inspection]:
        return lambda number: LookUpState(
            number, attempt_id, (operator,), wanted, keys, STATE_TIMEOUT_MS, shown == "TYPES"
        )

    answers = await asyncio.gather(
        *(_ask(call, str(one.executor_id), request(one.attempt_id)) for one in running)
    )
    states = {one: kind for answer in answers for one, kind in answer.states.items()}
    if wanted and running and wanted not in states:
        known = ", ".join(sorted(states)) or "none"
        missing = f"{name[:100]!r} has no keyed state {wanted[:100]!r}, but: {known}"
        raise RestError(404, missing + nearest_hint(wanted, states))
    return {
        "operator": name,
        "states": [{"name": one, "kind": kind} for one, kind in sorted(states.items())],
        "redacted": shown == "TYPES",
        "consistency": "live",
        "values": [
            {"key": found.key, "namespace": found.namespace, "text": found.text}
            for answer in answers
            for found in answer.found
        ],
    }


async def state_scan(call: Call) -> Json:
    """Return a page of a keyed state, as an Arrow stream in base64.

    ``operator`` and ``state`` name the state.  ``where`` is a condition such as ``value.price > 3``
    and may be repeated; ``limit`` is the maximum number of rows (default 1000).
    ``cursor`` of the answer requests the next page, and is null on the last one.
    ``fields`` has the fields that the conditions name, each with the reason why no entry of the
    page has it, or an empty text.
    An unknown operator or state is answered with 404, an invalid condition with 400.
    If a task does not answer, the answer is 503.
    """
    if rest.RECORD_SAMPLES.read(call.gateway.configuration) != "VALUES":
        raise RestError(403, f"values of state are not shown ({rest.RECORD_SAMPLES.key})")
    name, wanted, cursor = (
        call.query.get(one, [""])[-1] for one in ("operator", "state", "cursor")
    )
    limit = _number(call, "limit", DEFAULT_ROWS, MAX_PAGE_ROWS)
    job_id = call.job().id
    try:
        filters = tuple(map(condition_of_text, call.query.get("where", ())))
        question = StateQuestion(name, wanted, None, filters, cursor, limit)
        answer, rows, stream = await asyncio.to_thread(
            _page, StateReader(call.gateway, job_id), question
        )
    except WrongArgumentError as error:
        raise RestError(400, str(error)) from None
    except SerializationError as error:
        raise RestError(500, str(error)) from None
    except StateReadError as error:
        raise _refusal(error) from None
    return {
        "operator": name,
        "state": wanted,
        "consistency": "live",
        "checkpoint": answer.checkpoint,
        "rows": rows,
        "arrow": base64.b64encode(stream).decode(),
        "cursor": answer.cursor,
        "fields": dict(answer.fields),
    }


def _page(reader: StateReader, question: StateQuestion) -> tuple[StateAnswer, int, bytes]:
    """Return an answer, the number of its rows, and the rows as an Arrow stream."""
    answer = reader.read(question)
    rows = rows_of(answer)
    return answer, len(rows), stream_of(rows, question.state)


def _operator(job: JobSnapshot, name: str) -> bytes:
    try:
        return operator_id(job, name)
    except StateReadError as error:
        raise _refusal(error) from None


def _refusal(error: StateReadError) -> RestError:
    statuses = {AmbiguousOperatorError: 400, UnknownStateError: 404}
    return RestError(statuses.get(type(error), 503), str(error))


def _number(call: Call, name: str, default: int, last: int) -> int:
    text = call.query.get(name, [""])[-1] or str(default)
    if not text.isascii() or not text.isdigit() or not 0 <= int(text[:9]) <= last:
        raise RestError(400, f"{name} must be a number from 0 to {last}, got {text[:100]!r}")
    return int(text[:9])


async def _ask(call: Call, executor_id: str, request: Callable[[int], Any]) -> Inspected:
    future = asyncio.wrap_future(call.gateway.inspections.ask(executor_id, request))
    try:
        return await asyncio.wait_for(future, ASK_TIMEOUT_S)
    except InspectionError as error:
        raise RestError(503, str(error)) from None
