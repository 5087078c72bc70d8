"""EventLoop: an asyncio event loop with a thread of its own, for the calls of one operator."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.logs.speaker import Speaker, current_speaker, speaks_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

#: Seconds between two chances to interrupt a waiting task.
_STEP_S: Final = 0.1

#: The value and the exception of a coroutine.  An event loop stops at once for SystemExit and
#: KeyboardInterrupt, and treats a CancelledError as its own, so raising would not reach the caller.
Outcome = tuple[Any, BaseException | None]


class EventLoop:
    """Runs the coroutines of one operator.

    The user's ``open`` and ``close`` run in the loop as well, so that a client bound to a loop can
    be created and closed there.
    """

    def __init__(self, name: str, on_stray_error: Callable[[BaseException], None]) -> None:
        """Start the thread.

        Args:
            name: The name of the operator.
            on_stray_error: Called by the loop's thread with an error of a task or callback that
                nobody awaits, which stops the loop.
        """
        self._loop = asyncio.new_event_loop()
        self._on_stray_error = on_stray_error
        self._calls: set[asyncio.Task[Any]] = set()  # of the loop's thread
        self._thread = threading.Thread(
            target=self._run, args=(current_speaker(),), name=f"{name} event loop", daemon=True
        )
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: object) -> Future[Outcome]:
        """Begin an asynchronous call, and return the future of its outcome, which never raises."""
        return asyncio.run_coroutine_threadsafe(self._called(function, *arguments), self._loop)

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a plain or asynchronous function in the loop and wait until it has ended.

        Raises:
            BaseException: The function raised it.
        """
        future = asyncio.run_coroutine_threadsafe(_outcome(function, *arguments), self._loop)
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(_STEP_S):
            pass
        _raise_error_of(future)

    def close(self, function: Callable[[], object]) -> None:
        """Cancel all calls, run ``function`` in the loop, cancel other tasks, and end the thread.

        If the wait for the loop is interrupted before the function has begun, because a coroutine
        blocks the loop, the calling thread calls the function; an asynchronous one is lost.

        Raises:
            BaseException: The function raised it.
        """
        # Either the loop or the interrupted thread pops and calls it.
        to_call = [function]
        loop = self._loop
        try:
            future = asyncio.run_coroutine_threadsafe(self._shut_down(to_call), loop)
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
            while self._thread.is_alive():
                self._thread.join(_STEP_S)
        finally:
            if to_call:
                _call_outside(to_call.pop())
        _raise_error_of(future)

    async def _called(self, function: Callable[..., object], *arguments: object) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await _outcome(function, *arguments)
        finally:
            self._calls.discard(task)

    async def _shut_down(self, to_call: list[Callable[[], object]]) -> Outcome:
        # Each call has begun: their first steps were scheduled before that of this coroutine.
        await _cancelled(self._calls)
        outcome = await _outcome(to_call.pop()) if to_call else (None, None)
        await _cancelled(asyncio.all_tasks() - {asyncio.current_task()})
        await self._loop.shutdown_asyncgens()
        return outcome

    def _run(self, speaker: Speaker | None) -> None:
        """Run the event loop until it is stopped; report errors that stop it otherwise."""
        speaks_for(speaker)
        asyncio.set_event_loop(self._loop)
        stopped = False
        while not stopped:
            try:
                self._loop.run_forever()
                stopped = True
            except BaseException as error:
                self._on_stray_error(error)
        self._loop.close()


async def _outcome(function: Callable[..., object], *arguments: object) -> Outcome:
    """Call a function, await its result if that is awaitable, and return the outcome."""
    try:
        result = function(*arguments)
        if inspect.isawaitable(result):
            result = await result
    except BaseException as error:
        return None, error
    return result, None


async def _cancelled(tasks: Iterable[asyncio.Future[object]]) -> None:
    """Cancel tasks and wait until they have ended."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _call_outside(function: Callable[[], object]) -> None:
    result = function()
    if inspect.iscoroutine(result):
        result.close()


def _raise_error_of(future: Future[Outcome]) -> None:
    _, error = future.result()
    if error is None:
        return
    if isinstance(error, RuntimeError) and "event loop" in str(error):
        error.add_note(
            "open() and close() of an AsyncFunction run in its event loop: to wait for a "
            "coroutine there, write async def and await it"
        )
    raise error
