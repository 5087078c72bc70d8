"""Queues and asynchronous iterators of the program as sources (beyond PyFlink).

They stay in the process that runs the program: the source's enumerator, which runs there too, takes
records in batches and sends them to the one reader as it asks for them.  Batches are numbered, and
kept until a checkpoint holds that they were read, so that a reader that fails gets them again.
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
#: How long a call waits for records, after which the job may end.
_WAIT_S: Final = 0.1
#: When so many are kept nothing is taken until a checkpoint is complete.
_MOST_KEPT: Final = 1_000_000

#: The queues that the program passes to its jobs, by number; other processes have none.
_FEEDS: dict[int, Feed] = {}
_numbers = itertools.count(1)


class _Elements(Protocol):
    """Supply of records."""

    def take(self, limit: int, timeout_s: float) -> tuple[list[Any], bool]:
        """Some records, none when none come in time; and whether there will be no others."""


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
    """Values of an asynchronous iterator, which runs in an event loop of its own while asked."""

    def __init__(self, make: Callable[[], AsyncIterator[Any]]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._iterator: AsyncIterator[Any] | None = None
        self._next: asyncio.Task[Any] | None = None
        self._failure: Exception | None = None

    def take(self, limit: int, timeout_s: float) -> tuple[list[Any], bool]:
        if self._failure is not None:
            # A job that restarts asks again; an iterator that has raised gives nothing more.
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
        number: Batches are numbered from 0.
        elements: The elements.
        is_last: Whether no other batch follows.
    """

    number: int
    elements: list[Any]
    is_last: bool


@dataclass(frozen=True)
class _Wanted:
    """Request of a reader.

    Attributes:
        number: The batch, or the next that there is.
        keeps: Whether checkpoints say when a batch is of no use any more.
    """

    number: int
    keeps: bool


@dataclass(frozen=True)
class _Read:
    """Message of a reader when a checkpoint is complete.

    Attributes:
        number: The batch that the checkpoint has as the next; those before it are of no use.
    """

    number: int


class Feed:
    """Batches of records, with those that may be asked for again."""

    def __init__(self, elements: _Elements) -> None:
        """Takes nothing yet."""
        self._elements = elements
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._kept: deque[_Batch] = deque()
        self._next = 0
        self._is_over = False

    def batch(self, wanted: _Wanted) -> _Batch | None:
        """The batch that is wanted; None when there is none yet.  Blocks for a short time."""
        # An enumerator that was replaced may still wait here while its successor asks.
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
        """Nobody will ask for a batch in front of this one again."""
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
        """Always the same: there is one."""
        return "queue"


class QueueSource(PythonSource[Any, QueueSplit]):
    """Reads what the program puts into a queue, or what an asynchronous iterator gives.

    One subtask reads; those beyond end at once.  With checkpoints each record is read once as long
    as the program lives; without them what is under way when a task fails is lost.
    """

    def __init__(self, feed_id: int) -> None:
        """Create a source; use `of_queue` and `of_async_iterator`."""
        super().__init__()
        self._feed_id = feed_id

    @staticmethod
    def of_queue(elements: Any, end: Any = None) -> QueueSource:
        """The records of a queue.

        Args:
            elements: A ``queue.Queue``, or what has its ``get``.
            end: The record, compared by identity, behind which the source ends.

        Raises:
            WrongArgumentError: It is no queue.
        """
        if not callable(getattr(elements, "get", None)) or isinstance(elements, asyncio.Queue):
            raise WrongArgumentError(
                f"from_queue takes a queue.Queue, got {elements!r}; of an asyncio.Queue make an "
                "asynchronous iterator"
            )
        return _source_of(_QueueElements(elements, end))

    @staticmethod
    def of_async_iterator(elements: Any) -> QueueSource:
        """Return the values of an asynchronous iterator.

        Args:
            elements: What ``async for`` takes, or a function without arguments that makes it.

        Raises:
            WrongArgumentError: The argument is neither.
        """
        if hasattr(elements, "__aiter__"):
            return _source_of(_AsyncElements(lambda: elements))
        if not callable(elements):
            raise WrongArgumentError(
                "from_async_iterator takes an asynchronous iterator, or a function that makes one, "
                f"got {elements!r}"
            )
        return _source_of(_AsyncElements(elements))

    def get_boundedness(self) -> Boundedness:
        """CONTINUOUS_UNBOUNDED: nobody knows whether there is an end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[QueueSplit]
    ) -> SplitEnumerator[QueueSplit]:
        """Makes what takes records from the queue."""
        return _FeedingEnumerator(enum_context, [QueueSplit()], self._feed_id)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[QueueSplit], state: Any
    ) -> SplitEnumerator[QueueSplit]:
        """Makes it again."""
        return _FeedingEnumerator(enum_context, state, self._feed_id)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[QueueSplit]:
        """Create the reader of a subtask."""
        return _BatchReader(reader_context)


def _feed_of(number: int) -> Feed:
    feed = _FEEDS.get(number)
    if feed is None:
        raise SourceError(
            "a queue or an asynchronous iterator is in the process that runs the program, and "
            "the JobMaster is in another one: take the target local, in-process or spark"
        )
    return feed


def _source_of(elements: _Elements) -> QueueSource:
    number = next(_numbers)
    _FEEDS[number] = Feed(elements)
    return QueueSource(number)


class _FeedingEnumerator(SingleSplitEnumerator[QueueSplit]):
    """Sends the reader the batches that it asks for, one at a time."""

    def __init__(
        self, context: SplitEnumeratorContext[QueueSplit], splits: list[QueueSplit], feed_id: int
    ) -> None:
        super().__init__(context, splits)
        # Looked up before any reader asks, so that a feed that is not here is an error at once.
        _feed_of(feed_id)
        self._feed_id = feed_id
        self._asked: dict[int, _Wanted] = {}

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        """The reader wants a batch, or says which it will not want again."""
        if isinstance(source_event, _Read):
            _feed_of(self._feed_id).forget(source_event.number)
        else:
            self._asked[subtask_id] = source_event
            self._look(subtask_id, source_event)

    def _look(self, subtask_id: int, wanted: _Wanted) -> None:
        def found(batch: _Batch | None, error: BaseException | None) -> None:
            if error is not None:
                raise SourceError(f"the elements of the program end with {error!r}") from error
            if self._asked.get(subtask_id) is not wanted:
                return
            if batch is None:
                self._look(subtask_id, wanted)
            elif subtask_id in self._context.registered_readers():
                self._context.send_event_to_source_reader(subtask_id, batch)

        self._context.call_async(lambda: _feed_of(self._feed_id).batch(wanted), found)


class _BatchReader(SingleSplitReader[QueueSplit]):
    """Emits the batches that it is sent."""

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._batch: _Batch | None = None
        self._has_asked = False
        self._keeps = INTERVAL.read(context.get_configuration().to_dict()) is not None
        self._read_by_checkpoint: dict[int, int] = {}

    def handle_source_events(self, source_event: Any) -> None:
        """A batch has come."""
        self._batch = source_event

    def poll_split(self, split: QueueSplit, output: ReaderOutput) -> InputStatus:
        """Emits a batch, and asks for the next."""
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
        """Drop the values that the checkpoint contains as read.

        The reader says it, since only its own state knows it: where the enumerator saw it ask for
        more, it may have failed since and begun again further in front.
        """
        number = self._read_by_checkpoint.pop(checkpoint_id, None)
        for earlier in [n for n in self._read_by_checkpoint if n < checkpoint_id]:
            del self._read_by_checkpoint[earlier]
        if number is not None:
            self._context.send_source_event_to_coordinator(_Read(number))

    def is_available(self) -> Future[Any] | None:
        """None: the enumerator brings more."""
        return None
