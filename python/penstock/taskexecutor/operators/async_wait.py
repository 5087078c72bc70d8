"""AsyncFunction: coroutines that run while the task continues."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.common.exception_deadline import repr_in_time
from penstock.common.typeinfo import Types
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import QueueFullError
from penstock.taskexecutor.compiled import FunctionOperator, StreamOperator
from penstock.taskexecutor.operators.event_loop import EventLoop
from penstock.taskexecutor.task.mailbox import MailboxClosedError, MailboxUser

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.event_loop import Outcome
    from penstock.taskexecutor.time.processing_time import ProcessingTimeTimer


_IN_FLIGHT: Final = ListStateDescriptor("_async_wait_operator_state_", Types.PICKLED_BYTE_ARRAY())


def create_async_wait(context: OperatorContext, descriptor: operators.AsyncWait) -> StreamOperator:
    """Create the operator of ``AsyncDataStream``."""
    return AsyncWaitOperator(context, descriptor)


class _Entry:
    """A record whose call is under way or done, or a watermark between records."""

    __slots__ = ("done", "is_watermark", "results", "timer", "timestamp", "value")

    def __init__(self, value: object, timestamp: int, *, is_watermark: bool) -> None:
        self.value = value
        self.timestamp = timestamp
        self.is_watermark = is_watermark
        self.done = is_watermark
        self.results: list[Any] = []
        self.timer: ProcessingTimeTimer | None = None


class AsyncWaitOperator(FunctionOperator):
    """Starts a coroutine for each record and emits results in order or on completion.

    Coroutines run in an event loop with its own thread; their results return as mails.  At most
    ``capacity`` records and watermarks wait in the queue, answered or not: if the queue is full,
    the operator runs mails until one has left.  Watermarks keep their place: results never cross
    one, in either order.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.AsyncWait) -> None:
        """Create the operator."""
        super().__init__(descriptor.function, descriptor.function.async_invoke)
        self.capacity = descriptor.capacity
        self.timeout_ms = descriptor.timeout_ms
        self.ordered = descriptor.ordered
        self.retry_strategy = descriptor.retry_strategy
        self.copier = context.isolation.copier(
            "calls its coroutine with", next(iter(context.config.input_types), None)
        )
        self.result_copier = context.isolation.copier("returns", context.config.output_type)
        self.queue: deque[_Entry] = deque()
        # One mail for all outcomes since the last.
        self.outcomes: deque[tuple[_Entry, Future[Outcome]]] = deque()
        self.telling = threading.Lock()
        self.is_told = False
        self.teller = MailboxUser("notices of outcomes of asynchronous calls", 1)
        self.stray = MailboxUser("errors of what an asynchronous function started", 1)
        self.restored: list[tuple[Any, int]] = []
        self.event_loop: EventLoop | None = None

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the records whose results were not emitted."""
        state = context.get_operator_state_store().get_list_state(_IN_FLIGHT)
        self.restored = list(state.get() or ())

    def snapshot_state(self, context: StateSnapshotContext) -> None:  # noqa: ARG002
        """Store the records whose results are not emitted; a restore calls the function again."""
        state = self.context.operator_state.list_state(_IN_FLIGHT)
        state.update((e.value, e.timestamp) for e in self.queue if not e.is_watermark)

    def open(self) -> None:
        """Open the function in the event loop, and call it again for restored records."""
        self.event_loop = EventLoop(self.context.name, self._on_stray_error)
        self.event_loop.run(self.user_function.open, self.context.runtime_context)
        restored, self.restored = self.restored, []
        for value, timestamp in restored:
            self.process(value, timestamp)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        entry = _Entry(value, timestamp, is_watermark=False)
        self._enqueue(entry)
        assert self.event_loop is not None, "opened"
        call = self.event_loop.call(self._invoke, value)
        if self.timeout_ms > 0:
            timers = self.context.processing_time

            def on_timeout(_: int) -> None:
                if not entry.done:
                    call.cancel()
                    self._complete(entry, "timeout", lambda: self._timed_out(entry.value))

            entry.timer = timers.register(timers.now() + self.timeout_ms, on_timeout)

        def on_done(future: Future[Outcome]) -> None:
            self.outcomes.append((entry, future))
            self._tell()

        call.add_done_callback(on_done)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        self._enqueue(_Entry(None, timestamp, is_watermark=True))
        self._emit_ready()

    def finish(self) -> None:
        """Flush pending output at the end of the input."""
        self.context.run_until(self._is_empty)

    def end_superstep(self, group: str, quiet_steps: int) -> None:  # noqa: ARG002
        """Emit all pending results before the marker of an iteration."""
        self.finish()

    def close(self) -> None:
        """Close the function in the event loop, once its calls have ended."""
        event_loop, self.event_loop = self.event_loop, None
        if event_loop is not None:
            event_loop.close(self.user_function.close)

    def _enqueue(self, entry: _Entry) -> None:
        if len(self.queue) >= self.capacity:
            self.context.run_until(self._has_room)
        self.queue.append(entry)

    def _has_room(self) -> bool:
        return len(self.queue) < self.capacity

    def _is_empty(self) -> bool:
        return not self.queue

    def _tell(self) -> None:
        """Post a mail that processes the outcomes so far; called by the event loop."""
        with self.telling:
            if self.is_told:
                return
            self.is_told = True
        # Closed means that the task ended without waiting for this call.
        with suppress(MailboxClosedError):
            self.context.post(self._take_outcomes, self.teller)

    def _take_outcomes(self) -> None:
        with self.telling:
            self.is_told = False
        while self.outcomes:
            entry, future = self.outcomes.popleft()
            self._complete(entry, "async_invoke", partial(_results_of, future))

    def _argument(self, value: object) -> object:
        """Return the function's argument; the record stays for a timeout, retry or checkpoint."""
        return value if self.copier is None else self.copier.copied(value)

    def _timed_out(self, value: object) -> Iterable[object]:
        results: Iterable[object] = self.user_function.timeout(self._argument(value))
        return results

    async def _invoke(self, value: object) -> object:
        """Call the function, and retry as the retry strategy says."""
        strategy = self.retry_strategy
        attempts = 1
        while True:
            try:
                result: Any = await self.function(self._argument(value))
            except Exception as error:
                if strategy is None:
                    raise
                predicate = strategy.get_retry_predicate().exception_predicate()
                if predicate is None or not predicate(error) or not strategy.can_retry(attempts):
                    raise
            else:
                # None is no result, so the predicate does not apply.
                if strategy is None or result is None:
                    return result
                predicate = strategy.get_retry_predicate().result_predicate()
                if predicate is None or not predicate(result) or not strategy.can_retry(attempts):
                    return result
            await asyncio.sleep(strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _on_stray_error(self, error: BaseException) -> None:
        """Fail the task; called by the loop's thread."""
        # Full means that another such error is about to fail the task already.
        with suppress(MailboxClosedError, QueueFullError):
            self.context.post(partial(self._fail, error), self.stray)

    def _fail(self, error: BaseException) -> None:
        raise error

    def _complete(
        self, entry: _Entry, method: str, results: Callable[[], Iterable[object]]
    ) -> None:
        """Note the outcome of a call, in the task's thread.

        Args:
            entry: The record.
            method: The method of the function that returns the results.
            results: Returns them, or raises what the method raised.
        """
        if entry.done:
            return
        given = results()
        if not isinstance(given, Iterable):
            msg = (
                f"{type(self.user_function).__name__}.{method} of {self.context.name!r} must "
                f"return a list of results or another iterable, it returned {repr_in_time(given)}"
            )
            raise TypeError(msg)
        found = list(given)
        # The function may keep them while they wait for their turn.
        copier = self.result_copier
        entry.results = found if copier is None else copier.copied_all(found)
        entry.done = True
        if entry.timer is not None:
            entry.timer.cancel()
        self._emit_ready()

    def _emit_ready(self) -> None:
        queue = self.queue
        if not self.ordered:
            self._emit_unordered()
        while queue and queue[0].done:
            self._emit(queue.popleft())

    def _emit_unordered(self) -> None:
        """Emit every completed record before the first watermark."""
        waiting: list[_Entry] = []
        queue = self.queue
        while queue and not queue[0].is_watermark:
            entry = queue.popleft()
            if entry.done:
                self._emit(entry)
            else:
                waiting.append(entry)
        queue.extendleft(reversed(waiting))

    def _emit(self, entry: _Entry) -> None:
        if entry.is_watermark:
            self.output.emit_watermark(entry.timestamp)
            return
        for result in entry.results:
            self.output.collect(result, entry.timestamp)


def _results_of(call: Future[Outcome]) -> Any:
    results, error = call.result()
    if error is not None:
        raise error
    return results
