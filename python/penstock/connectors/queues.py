"""Queues and asynchronous iterators of the program as sources (beyond PyFlink).

They stay in the process that runs the program: the source's enumerator, which runs there too, takes
records in batches and sends them to the reader on request.  Batches are numbered, and kept until a
checkpoint has stored that they were read, so that a reader that fails receives them again.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.common.options.checkpointing import INTERVAL
from penstock.connectors.single_split import SingleSplitEnumerator, SingleSplitReader
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from penstock.errors import SourceError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import Future

_BATCH_ELEMENTS: Final = 1000
#: How long a call waits for records; afterwards the job may end.
_WAIT_S: Final = 0.1
#: If so many records are kept, no more are taken until a checkpoint is complete.
_MOST_KEPT: Final = 1_000_000

#: The queues that the program passes to its jobs, by number; empty in other processes.
_FEEDS: dict[int, Feed] = {}
_numbers = itertools.count(1)


class _Elements(Protocol):
    """Supply of records."""

    def take(self, limit: int, timeout_s: float) -> tuple[list[Any], bool]:
        """Return some records, none if none arrive in time; and whether they are the last."""


class _QueueElements:
    """Values that a program puts into a queue."""

    def __init__(self, elements: Any, end: Any) -> None:
        self._queue = elements
        self._end = end

    def take(self, limit: int, timeout_s: float) -> tuple[list[Any], bool]:
        found: list[Any] = []
        try:
            while len(found) < limit:
                element = self._queue.get(timeout=0 if found else timeout_s)
                if element is self._end:
                    return found, True
                found.append(element)
        except queue.Empty:
            pass
        return found, False


class _AsyncElements:
    """Values of an asynchronous iterator, whose own event loop runs during each call."""

    def __init__(self, make: Callable[[], AsyncIterator[Any]]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._iterator: AsyncIterator[Any] | None = None
        self._next: asyncio.Task[Any] | None = None
        self._failure: Exception | None = None

    def take(self, limit: int, timeout_s: float) -> tuple[list[Any], bool]:
        if self._failure is not None:
            # A restarted job calls again; an iterator that has raised yields no more values.
            raise self._failure
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        found: list[Any] = []
        try:
            is_over = self._loop.run_until_complete(self._take(found, limit, timeout_s))
        except Exception as error:
            self._failure = error
            self._loop.close()
            raise
        if is_over:
            self._loop.close()
        return found, is_over

    async def _take(self, found: list[Any], limit: int, timeout_s: float) -> bool:
        if self._iterator is None:
            self._iterator = aiter(self._make())
        while len(found) < limit:
            if self._next is None:
                self._next = asyncio.ensure_future(anext(self._iterator))
            done, _ = await asyncio.wait([self._next], timeout=0 if found else timeout_s)
            if not done:
                break
            outcome, self._next = self._next, None
            try:
                found.append(outcome.result())
            except StopAsyncIteration:
                return True
        return False


@dataclass(frozen=True)
class _Batch:
    """Records on their way to the reader.

    Attributes:
        number: The number of the batch, from 0.
        elements: The records.
        is_last: Whether no other batch follows.
    """

    number: int
    elements: list[Any]
    is_last: bool


@dataclass(frozen=True)
class _Wanted:
    """Request of a reader for a batch.

    Attributes:
        number: The number of the batch; a later one is sent if it was forgotten.
        keeps: Whether batches are kept until a checkpoint.
    """

    number: int
    keeps: bool


@dataclass(frozen=True)
class _Read:
    """Message of a reader when a checkpoint is complete.

    Attributes:
        number: The next batch after the checkpoint; earlier ones may be dropped.
    """

    number: int


class Feed:
    """Batches of records, with those that may be requested again."""

    def __init__(self, elements: _Elements) -> None:
        """Create a feed without batches."""
        self._elements = elements
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._kept: deque[_Batch] = deque()
        self._next = 0
        self._is_over = False

    def batch(self, wanted: _Wanted) -> _Batch | None:
        """Return the requested batch; None if there is none yet.  Blocks for a short time."""
        # A replaced enumerator may still wait here when its successor calls.
        with self._taking:
            with self._lock:
                for batch in self._kept:
                    if batch.number >= wanted.number:
                        return batch
                has_room = sum(len(batch.elements) for batch in self._kept) < _MOST_KEPT
            self._next = max(self._next, wanted.number)
            if self._is_over:
                return _Batch(self._next, [], True)
            if not has_room:
                time.sleep(_WAIT_S)
                return None
            elements, self._is_over = self._elements.take(_BATCH_ELEMENTS, _WAIT_S)
            if not elements and not self._is_over:
                return None
            batch = _Batch(self._next, elements, self._is_over)
            self._next += 1
            if wanted.keeps:
                with self._lock:
                    self._kept.append(batch)
            return batch

    def forget(self, number: int) -> None:
        """Drop the batches before a number, which are not requested again."""
        with self._lock:
            while self._kept and self._kept[0].number < number:
                self._kept.popleft()


@dataclass
class QueueSplit(SourceSplit):
    """Read position of a queue.

    Attributes:
        number: The next batch.
    """

    number: int = 0

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "queue"


class QueueSource(PythonSource[Any, QueueSplit]):
    """Reads values that the program puts into a queue, or that an asynchronous iterator yields.

    One subtask reads; the others end at once.  With checkpoints each record is read once while the
    program lives; without them records in flight are lost when a task fails.
    """

    def __init__(self, feed_id: int) -> None:
        """Create a source; use `of_queue` and `of_async_iterator`."""
        super().__init__()
        self._feed_id = feed_id

    @staticmethod
    def of_queue(elements: Any, end: Any = None) -> QueueSource:
        """Return a source of the values of a queue.

        Args:
            elements: A ``queue.Queue``, or an object with its ``get``.
            end: The value, compared by identity, at which the source ends.

        Raises:
            WrongArgumentError: The argument is not a queue.
        """
        if not callable(getattr(elements, "get", None)) or isinstance(elements, asyncio.Queue):
            raise WrongArgumentError(
                f"from_queue takes a queue.Queue, got {elements!r}; wrap an asyncio.Queue in an "
                "asynchronous iterator for from_async_iterator"
            )
        return _source_of(_QueueElements(elements, end))

    @staticmethod
    def of_async_iterator(elements: Any) -> QueueSource:
        """Return a source of the values of an asynchronous iterator.

        Args:
            elements: An asynchronous iterable, or a function without arguments that returns one.

        Raises:
            WrongArgumentError: The argument is neither.
        """
        if hasattr(elements, "__aiter__"):
            return _source_of(_AsyncElements(lambda: elements))
        if not callable(elements):
            raise WrongArgumentError(
                "from_async_iterator takes an asynchronous iterator, or a function that returns "
                f"one, got {elements!r}"
            )
        return _source_of(_AsyncElements(elements))

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: the end is not known in advance."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[QueueSplit]
    ) -> SplitEnumerator[QueueSplit]:
        """Create the enumerator."""
        return _FeedingEnumerator(enum_context, [QueueSplit()], self._feed_id)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[QueueSplit], state: Any
    ) -> SplitEnumerator[QueueSplit]:
        """Restore the enumerator."""
        return _FeedingEnumerator(enum_context, state, self._feed_id)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[QueueSplit]:
        """Create the reader of a subtask."""
        return _BatchReader(reader_context)


def _feed_of(number: int) -> Feed:
    feed = _FEEDS.get(number)
    if feed is None:
        raise SourceError(
            "a queue or an asynchronous iterator is in the process that runs the program, and "
            "the JobMaster runs in another one: use the target local, in-process or spark"
        )
    return feed


def _source_of(elements: _Elements) -> QueueSource:
    number = next(_numbers)
    _FEEDS[number] = Feed(elements)
    return QueueSource(number)


class _FeedingEnumerator(SingleSplitEnumerator[QueueSplit]):
    """Sends the batches that the reader requests, one at a time."""

    def __init__(
        self, context: SplitEnumeratorContext[QueueSplit], splits: list[QueueSplit], feed_id: int
    ) -> None:
        super().__init__(context, splits)
        # Checked before any reader requests, so that a missing feed fails at once.
        _feed_of(feed_id)
        self._feed_id = feed_id
        self._asked: dict[int, _Wanted] = {}

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        """Handle a reader's request, or drop the batches that it has read."""
        if isinstance(source_event, _Read):
            _feed_of(self._feed_id).forget(source_event.number)
        else:
            self._asked[subtask_id] = source_event
            self._look(subtask_id, source_event)

    def _look(self, subtask_id: int, wanted: _Wanted) -> None:
        def found(batch: _Batch | None, error: BaseException | None) -> None:
            if error is not None:
                raise SourceError(
                    f"the records of the program ended with an error: {error!r}"
                ) from error
            if self._asked.get(subtask_id) is not wanted:
                return
            if batch is None:
                self._look(subtask_id, wanted)
            elif subtask_id in self._context.registered_readers():
                self._context.send_event_to_source_reader(subtask_id, batch)

        self._context.call_async(lambda: _feed_of(self._feed_id).batch(wanted), found)


class _BatchReader(SingleSplitReader[QueueSplit]):
    """Emits the batches that it receives."""

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._batch: _Batch | None = None
        self._has_asked = False
        self._keeps = INTERVAL.read(context.get_configuration().to_dict()) is not None
        self._read_by_checkpoint: dict[int, int] = {}

    def handle_source_events(self, source_event: Any) -> None:
        """Store a batch from the enumerator."""
        self._batch = source_event

    def poll_split(self, split: QueueSplit, output: ReaderOutput) -> InputStatus:
        """Emit a batch, and request the next one."""
        batch, self._batch = self._batch, None
        if batch is not None:
            for element in batch.elements:
                output.collect(element)
            split.number = batch.number + 1
            if batch.is_last:
                return InputStatus.END_OF_INPUT
            self._has_asked = False
        if not self._has_asked:
            self._has_asked = True
            event = _Wanted(split.number, self._keeps)
            self._context.send_source_event_to_coordinator(event)
        return InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[QueueSplit]:
        """Return the read position of the split."""
        if self._split is not None:
            self._read_by_checkpoint[checkpoint_id] = self._split.number
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the enumerator drop the values that the checkpoint contains as read.

        Only the reader's own state has that position: after a request that the enumerator has seen,
        the reader may have failed and restarted at an earlier batch.
        """
        number = self._read_by_checkpoint.pop(checkpoint_id, None)
        for earlier in [n for n in self._read_by_checkpoint if n < checkpoint_id]:
            del self._read_by_checkpoint[earlier]
        if number is not None:
            self._context.send_source_event_to_coordinator(_Read(number))

    def is_available(self) -> Future[Any] | None:
        """Return None: the enumerator's events wake the reader."""
        return None
