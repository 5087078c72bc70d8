"""ShardReader: emits the records that a thread reads from a subtask's shards."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.instants import datetime_of, micros_of
from penstock.connectors.kinesis.client import (
    aws_errors,
    error_code,
    is_transient,
    stream_argument,
)
from penstock.connectors.messages import Inbox
from penstock.connectors.split_source import InputStatus, ReaderOutput, SourceReader
from penstock.errors import SourceError
from penstock.external.background import ServerThreads

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.connectors.kinesis.description import StreamsDescription
    from penstock.connectors.kinesis.shards import ShardSplit

logger = logging.getLogger(__name__)

#: Records that one call emits; the task does nothing else meanwhile.
_STEP: Final = 100

#: Records that may wait for the task; if there are more, the thread stops reading.
_MOST_WAITING: Final = 10_000

_WAIT_S: Final = 0.1
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


@dataclass
class _Cursor:
    """The thread's position in a shard.

    Attributes:
        split: The shard.
        after: The sequence number of the last record that was read; None before the first.
        iterator: The service's iterator; None if a new one is needed.
        due_s: The time of the next read.
    """

    split: ShardSplit
    after: str | None
    iterator: str | None = None
    due_s: float = 0.0
    pause_s: float = field(default=_FIRST_PAUSE_S)
    last_success_s: float = field(default_factory=time.monotonic)


#: A shard's id and a record of it; None at its end.
_Read = tuple[str, "dict[str, Any] | None"]


class ShardReader(SourceReader["ShardSplit"]):
    """Emits records, each to the output of its shard, and stores their sequence numbers.

    Args:
        streams: The streams.
    """

    def __init__(self, streams: StreamsDescription) -> None:
        self._streams = streams
        self._splits: dict[str, ShardSplit] = {}
        self._paused: set[str] = set()
        self._held: defaultdict[str, list[_Read]] = defaultdict(list)
        self._tail = ShardTail(streams)

    def add_splits(self, splits: list[ShardSplit]) -> None:
        """Start to read shards."""
        for split in splits:
            self._splits[split.split_id()] = copy(split)
            self._tail.add(split)

    def notify_no_more_splits(self) -> None:
        """Do nothing: the enumerator never sends it."""

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some records."""
        found = self._taken()
        for split_id, record in found:
            if split_id in self._paused:
                self._held[split_id].append((split_id, record))
            elif record is None:
                del self._splits[split_id]
                output.release_output_for_split(split_id)
            else:
                self._emit(split_id, record, output)
        return InputStatus.MORE_AVAILABLE if found else InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return the future of the next record."""
        return self._tail.inbox.arrival()

    def pause_or_resume_splits(
        self, splits_to_pause: list[str], splits_to_resume: list[str]
    ) -> None:
        """Pause shards that are ahead; the thread stops reading them."""
        self._paused = (self._paused | set(splits_to_pause)) - set(splits_to_resume)
        self._tail.paused = frozenset(self._paused)
        for split_id in splits_to_resume:
            self._tail.inbox.put_back(self._held.pop(split_id, []))

    def snapshot_state(self, checkpoint_id: int) -> list[ShardSplit]:
        """Return the shards with their positions."""
        del checkpoint_id
        return list(map(copy, self._splits.values()))

    def close(self) -> None:
        """Close the connection."""
        self._tail.close()

    def _taken(self) -> list[_Read]:
        found = self._tail.inbox.taken(_STEP)
        if not found and self._tail.failure is not None:
            raise self._tail.failure
        return found

    def _emit(self, split_id: str, record: dict[str, Any], output: ReaderOutput) -> None:
        try:
            element = self._streams.deserialize(record)
        except Exception as failure:
            failure.add_note(f"Cannot decode record {record['SequenceNumber']} of {split_id}.")
            raise
        self._splits[split_id].sequence_number = record["SequenceNumber"]
        if element is not None:
            timestamp_ms = micros_of(record["ApproximateArrivalTimestamp"]) // 1000
            output.create_output_for_split(split_id).collect(element, timestamp_ms)


class ShardTail:
    """Reads shards in turn, in its own thread.

    Args:
        streams: The streams.

    Attributes:
        inbox: The records that wait for the task.
        paused: The ids of the splits that are not read.
        failure: The error that ended the thread, or None.
    """

    def __init__(self, streams: StreamsDescription) -> None:
        self._streams = streams
        self._condition = threading.Condition()
        self.inbox: Inbox[_Read] = Inbox(self._condition)
        self.paused: frozenset[str] = frozenset()
        self.failure: BaseException | None = None
        self._cursors: list[_Cursor] = []
        self._client: Any = None
        self._threads = ServerThreads("kinesis-source")

    def add(self, split: ShardSplit) -> None:
        """Start to read a shard."""
        with self._condition:
            self._cursors.append(_Cursor(copy(split), split.sequence_number))
            is_first = self._client is None
            if is_first:
                self._client = self._streams.aws.client("kinesis")
            self._condition.notify_all()
        if is_first:
            self._threads.submit(self._run)

    def close(self) -> None:
        """Stop the thread and close the connection."""
        if self._client is None:
            self._threads.close()
        else:
            self._threads.close(self._client.close)

    # In the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._threads.closed.is_set():
                cursor = self._next()
                if cursor is not None:
                    self._read(cursor)
        except BaseException as error:
            self.failure = error
            self.inbox.end()

    def _next(self) -> _Cursor | None:
        """Return the shard that is due first, once it is due; None to check again."""
        with self._condition:
            now_s = time.monotonic()
            ready = [each for each in self._cursors if each.split.split_id() not in self.paused]
            is_full = len(self.inbox.messages) >= _MOST_WAITING
            cursor = min(ready, key=lambda each: each.due_s, default=None)
            if cursor is not None and cursor.due_s <= now_s and not is_full:
                return cursor
            wait_s = _WAIT_S if cursor is None or is_full else cursor.due_s - now_s
            self._condition.wait(min(_WAIT_S, wait_s))
        return None

    def _read(self, cursor: _Cursor) -> None:
        try:
            if cursor.iterator is None:
                cursor.iterator = self._iterator_of(cursor)
            answer = self._client.get_records(
                ShardIterator=cursor.iterator,
                Limit=self._streams.batch_size,
                **_arn_of(cursor.split.stream),
            )
        except aws_errors() as error:
            self._back_off(cursor, error)
            return
        split_id, records = cursor.split.split_id(), answer["Records"]
        cursor.pause_s, cursor.last_success_s = _FIRST_PAUSE_S, time.monotonic()
        cursor.due_s = cursor.last_success_s + self._streams.poll_interval_ms / 1000
        cursor.iterator = answer.get("NextShardIterator")
        found: list[_Read] = [(split_id, record) for record in records]
        if records:
            cursor.after = records[-1]["SequenceNumber"]
        if cursor.iterator is None:  # the shard was closed, and read to the end
            found.append((split_id, None))
            with self._condition:
                self._cursors.remove(cursor)
        if found:
            self.inbox.put(found)

    def _iterator_of(self, cursor: _Cursor) -> str:
        split = cursor.split
        request: dict[str, Any] = {
            "ShardId": split.shard_id,
            **stream_argument(split.stream),
        }
        if cursor.after is not None:
            request["ShardIteratorType"] = "AFTER_SEQUENCE_NUMBER"
            request["StartingSequenceNumber"] = cursor.after
        elif split.start_ms is not None:
            request["ShardIteratorType"] = "AT_TIMESTAMP"
            request["Timestamp"] = datetime_of(split.start_ms * 1000)
        else:
            request["ShardIteratorType"] = "TRIM_HORIZON"
        iterator: str = self._client.get_shard_iterator(**request)["ShardIterator"]
        return iterator

    def _back_off(self, cursor: _Cursor, error: Any) -> None:
        """Schedule another read of the shard after a pause.

        Raises:
            SourceError: A retry cannot help, or the service has not responded for too long.
        """
        now_s = time.monotonic()
        waited_ms = (now_s - cursor.last_success_s) * 1000
        is_expired = error_code(error) == "ExpiredIteratorException"
        if not (is_expired or is_transient(error)) or waited_ms > self._streams.retry_timeout_ms:
            raise SourceError(
                f"cannot read shard {cursor.split.split_id()} of Kinesis: {error}"
            ) from error
        logger.warning(
            "cannot read shard %s of Kinesis: %s; retrying in %.1f s",
            cursor.split.split_id(),
            error,
            cursor.pause_s,
        )
        cursor.iterator = None
        cursor.due_s = now_s + cursor.pause_s
        cursor.pause_s = min(2 * cursor.pause_s, _LONGEST_PAUSE_S)


def _arn_of(stream: str) -> dict[str, str]:
    """Return the argument for a stream that is named by its ARN; empty for others."""
    return {"StreamARN": stream} if stream.startswith("arn:") else {}
