"""Inspector: reports stacks, records and state of this worker to the driver on request.

Short-lived threads answer the requests: without requests none runs.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from penstock.common.exception_deadline import described_in_time
from penstock.errors import MessageTooLargeError
from penstock.rpc.inspection_messages import (
    DumpThreads,
    Inspected,
    LookUpState,
    ReadState,
    SampleRecords,
    SampleStacks,
    StackCount,
    ThreadStack,
)
from penstock.taskexecutor.worker.native_stacks import NativeStacks, UnavailableError
from penstock.taskexecutor.worker.open_scans import IDLE_S, OpenScans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from penstock.rpc.inspection_messages import Inspection
    from penstock.rpc.message import Message
    from penstock.taskexecutor.task.task import Task

logger = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 8
MAX_THREADS: Final = 500
MAX_THREAD_CHARACTERS: Final = 16 * 1024
MAX_STACKS: Final = 2000
MAX_SAMPLES: Final = 10_000
MAX_DEPTH: Final = 200
MAX_RECORDS: Final = 100
MAX_RECORDS_TIMEOUT_MS: Final = 30_000
_GONE: Final = "the task does not run here any more"
_FORGOTTEN: Final = (
    f"the scan was not continued for {IDLE_S:.0f} s, or the task has restarted: "
    "start the scan again"
)
MAX_DELAY_MS: Final = 5
"""Upper limit of the random delay between two samples of the threads."""


class Inspector:
    """Answers the inspections of one worker."""

    def __init__(
        self, tasks: Callable[[], Iterable[Task]], send: Callable[[Message], object]
    ) -> None:
        """Create an inspector; no thread is started.

        Args:
            tasks: Returns the running tasks.
            send: Sends the answers.
        """
        self._tasks = tasks
        self._send = send
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._closed = threading.Event()
        self._scans = OpenScans()
        self._handlers: dict[type[Inspection], Callable[[Any], Inspected]] = {
            DumpThreads: self._dump_threads,
            SampleStacks: self._sample_stacks,
            SampleRecords: self._sample_records,
            LookUpState: self._look_up,
            ReadState: self._read_state,
        }

    def close(self) -> None:
        """End pending inspections soon."""
        self._closed.set()
        self._scans.clear()

    def inspect(self, request: Inspection) -> None:
        """Answer a request in a thread of its own; returns at once."""
        if not self._places.acquire(blocking=False):
            self._send(
                Inspected(
                    request.request_id, error=f"{MAX_AT_ONCE} inspections are already running"
                )
            )
            return
        threading.Thread(
            target=self._answer, args=(request,), name="inspection", daemon=True
        ).start()

    def _answer(self, request: Inspection) -> None:
        try:
            answer = self._handlers[type(request)](request)
        except Exception as error:
            logger.exception("an inspection failed")
            answer = Inspected(request.request_id, error=described_in_time(error))
        finally:
            self._places.release()
        try:
            self._send(answer)
        except MessageTooLargeError as error:
            self._send(Inspected(request.request_id, error=str(error)))

    def _dump_threads(self, request: DumpThreads) -> Inspected:
        return Inspected(request.request_id, threads=thread_stacks())

    def _sample_stacks(self, request: SampleStacks) -> Inspected:
        found: Counter[tuple[tuple[str, ...], bool]] = Counter()
        depth = min(request.depth, MAX_DEPTH)
        look, note = _look_at_python, ""
        if request.native:
            try:
                look = NativeStacks().look
            except UnavailableError as error:
                note = str(error)
        for _ in range(min(request.samples, MAX_SAMPLES)):
            tasks = [t for t in self._tasks() if t.descriptor.attempt_id in request.attempt_ids]
            if not tasks:
                break
            # A random delay avoids lockstep with periodic events, such as GIL switches.
            delay_ms = random.randrange(1, MAX_DELAY_MS)
            for frames, on_cpu in look(_threads_of(tasks), delay_ms, depth):
                found[frames, on_cpu] += 1
            if self._closed.wait(max(0, request.interval_ms - delay_ms) / 1000):
                break
        return Inspected(
            request.request_id,
            note=note,
            stacks=tuple(
                StackCount(frames, on_cpu, count)
                for (frames, on_cpu), count in found.most_common(MAX_STACKS)
            ),
        )

    def _sample_records(self, request: SampleRecords) -> Inspected:
        from penstock.taskexecutor.task.record_sample import RecordSample

        task = self._task(request.attempt_id)
        if task is None:
            return Inspected(request.request_id, error=_GONE)
        sample = RecordSample(min(request.count, MAX_RECORDS), redacted=request.redacted)
        problem = task.sample_records(request.edge, sample)
        if problem:
            return Inspected(request.request_id, error=problem)
        deadline_s = time.monotonic() + min(request.timeout_ms, MAX_RECORDS_TIMEOUT_MS) / 1000
        try:
            while not sample.full.wait(0.05):
                if self._closed.is_set() or time.monotonic() >= deadline_s:
                    break
        finally:
            task.end_sample(request.edge)
        return Inspected(request.request_id, records=sample.records())

    def _look_up(self, request: LookUpState) -> Inspected:
        from penstock.taskexecutor.task.state_lookup import StateLookup

        task = self._task(request.attempt_id)
        if task is None:
            return Inspected(request.request_id, error=_GONE)
        lookup = StateLookup(
            request.operators, request.state, request.keys, redacted=request.redacted
        )
        task.look_up(lookup)
        if not lookup.done.wait(min(request.timeout_ms, MAX_RECORDS_TIMEOUT_MS) / 1000):
            return Inspected(request.request_id, error=_busy(task))
        return Inspected(
            request.request_id,
            states=lookup.states,
            found=tuple(lookup.found),
            error=lookup.problem,
        )

    def _read_state(self, request: ReadState) -> Inspected:
        from penstock.taskexecutor.task.state_reading import StateReading

        task = self._task(request.attempt_id)
        if task is None:
            return Inspected(request.request_id, error=_GONE)
        places = None
        if request.scan:
            places = self._scans.find(request.scan, request.attempt_id)
            if places is None:
                return Inspected(request.request_id, error=_FORGOTTEN)
        reading = StateReading(request, places)
        deadline_s = time.monotonic() + min(request.timeout_ms, MAX_RECORDS_TIMEOUT_MS) / 1000
        while not reading.is_full:
            reading.done.clear()
            task.look_up(reading)
            if not reading.done.wait(max(0.0, deadline_s - time.monotonic())):
                return Inspected(request.request_id, error=_busy(task))
        scan = 0
        if reading.is_at_end or reading.places is None:
            self._scans.forget(request.scan)
        else:
            scan = self._scans.keep(request.scan, request.attempt_id, reading.places)
        return Inspected(
            request.request_id,
            states=reading.states,
            entries=tuple(reading.chunks),
            position=reading.position,
            scan=scan,
            is_at_end=reading.is_at_end,
            fields=reading.fields.problems,
            error=reading.problem,
        )

    def _task(self, attempt_id: bytes) -> Task | None:
        return next((t for t in self._tasks() if t.descriptor.attempt_id == attempt_id), None)


def _busy(task: Task) -> str:
    return f"{task.name} did not answer in time: it is in user code, or back pressured"


def thread_stacks() -> tuple[ThreadStack, ...]:
    """Return the stack of every thread of this process, innermost Python calls first."""
    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate()[:MAX_THREADS]:
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            stack = "".join(reversed(traceback.format_stack(frame)))
            text = f'"{thread.name}" Id={thread.native_id}\n{stack}'
            found.append(ThreadStack(thread.name, text[:MAX_THREAD_CHARACTERS]))
    return tuple(found)


def _threads_of(tasks: Sequence[Task]) -> list[threading.Thread]:
    idents = {task.thread_ident for task in tasks}
    of_tasks = tuple(f" of {task.name}" for task in tasks)
    return [
        thread
        for thread in threading.enumerate()
        if thread.ident in idents or thread.name.endswith(of_tasks)
    ]


def _look_at_python(
    threads: Sequence[threading.Thread], delay_ms: int, depth: int
) -> list[tuple[tuple[str, ...], bool]]:
    """Return the threads' positions in Python functions, and whether each uses the processor."""
    before = [_processor_ns(thread.native_id) for thread in threads]
    frames = sys._current_frames()
    stacks = [_stack(frames.get(thread.ident or 0), depth) for thread in threads]
    del frames
    # A thread waiting for the GIL is about to run: it gets its turn while this thread sleeps.
    time.sleep(delay_ms / 1000)
    after = [_processor_ns(thread.native_id) for thread in threads]
    return [
        (stack, later > earlier)
        for stack, earlier, later in zip(stacks, before, after, strict=True)
        if stack
    ]


def _stack(frame: FrameType | None, depth: int) -> tuple[str, ...]:
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        module = frame.f_globals.get("__name__", code.co_filename)
        found.append(f"{module}.{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    # The innermost frames show the current work; the outermost are the same for all threads.
    return tuple(reversed(found[:depth]))


def _processor_ns(native_id: int | None) -> int:
    """Return the processor time of a thread of this process; 0 if it has ended."""
    if native_id is None:
        return 0
    try:
        # Linux' number of a thread's clock; Python finds it only by the thread's address, which is
        # invalid if the thread may have ended.
        return time.clock_gettime_ns((~native_id << 3) | 6)
    except OSError:
        return 0
