"""Reads partitions in the task's thread.

If records are available, the task takes them from the library's queue, a batch at a time and
without waiting.  Otherwise a thread of the reader waits for the next ones, so that the task can do
other work meanwhile.  The two never use the consumer at the same time: a second call, even one that
only adds a partition, would wait for ever for the first.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.kafka.admin import Connections
from penstock.connectors.kafka.client import LibraryLog, kafka_library
from penstock.connectors.kafka.deserialization import BlockSchema, ValueOnly, builtin_decoder
from penstock.connectors.kafka.offsets import EARLIEST
from penstock.connectors.kafka.partitions import KafkaPartitionSplit
from penstock.connectors.messages import DeadLetters
from penstock.connectors.split_source import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from penstock.errors import SourceError
from penstock.formats.dead_letters import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connectors.kafka.descriptions import SourceDescription
    from penstock.connectors.kafka.deserialization import Blocks

logger = logging.getLogger(__name__)

#: Records per call of the library: as many as fit into a core's cache.  With a thousand, each takes
#: 1.4 times as long, with a hundred 1.1 times.
_BATCH: Final = 300

#: Records that one call emits at first; the number grows while calls are short.
_LEAST_STEP: Final = 50

#: If a call takes longer than this, the next one emits fewer records; below half of it, more.
#: During a call the task handles nothing else.
_STEP_NS: Final = 1_000_000

#: Most records of a block: with more, the fixed cost of kernels is a small part of the time.
_BLOCK_RECORDS: Final = 4096

#: Bytes of values after which a block ends.
_BLOCK_BYTES: Final = 4 << 20

#: If a block takes longer than this, the next one has fewer records.  The time of a smaller one
#: is mostly the fixed cost of kernels.
_BLOCK_NS: Final = 50_000_000

#: The time within which the waiting thread notices that the task needs the consumer, in seconds.
_WAIT_S: Final = 0.02

#: The interval at which the records that are still unread are counted, in seconds.
_COUNT_EVERY_S: Final = 1.0


class _Partition:
    """A partition that is read: its next offset and its output."""

    def __init__(self, split: KafkaPartitionSplit) -> None:
        self.split = split
        self.next_offset = split.starting_offset
        self.output: SourceOutput | None = None
        #: The parts of a block, within one call.
        self.taken: list[Any] = []


class KafkaSourceReader(SourceReader[KafkaPartitionSplit]):
    """Reads the partitions of one subtask."""

    def __init__(self, source: SourceDescription, context: SourceReaderContext) -> None:
        """Create a reader without partitions."""
        self._source = source
        self._context = context
        self._library: Any = kafka_library("KafkaSource")
        self._consumer: Any = None
        self._connections = Connections("KafkaSource", source.settings)
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._topics: set[str] = set()
        self._without_output: list[_Partition] = []
        #: Empty splits, whose outputs would hold event time back.
        self._to_release: list[KafkaPartitionSplit] = []
        self._batch: list[Any] = []
        self._batch_position = 0
        self._step = _LEAST_STEP
        self._no_more_splits = False
        self._waiting: Future[list[Any]] | None = None
        self._waiter: ThreadPoolExecutor | None = None
        self._wait_ends = False
        self._pending_records = 0
        self._next_count_s = 0.0
        self._finished: dict[tuple[str, int], int] = {}
        self._uncommitted: dict[int, dict[tuple[str, int], int]] = {}
        group = context.metric_group()
        self._commits_succeeded = group.counter("commitsSucceeded")
        self._commits_failed = group.counter("commitsFailed")
        self._dead_letters = DeadLetters(
            Policy(source.skips_undecodable, source.dead_letters),
            "set_skip_undecodable_records(True) leaves such records out, set_dead_letters(tag) "
            "sends them to a side output",
            context,
        )
        group.gauge("pendingRecords", lambda: self._pending_records)
        schema = source.deserializer
        self._blocks = schema.blocks(group) if isinstance(schema, BlockSchema) else None
        self._block_records = _BLOCK_RECORDS

    def start(self) -> None:
        """Do nothing: the first partition creates the connection."""

    def add_splits(self, splits: list[KafkaPartitionSplit]) -> None:
        """Start to read partitions."""
        added = []
        for split in splits:
            partition = _Partition(split)
            if split.is_empty:
                logger.info("%s is empty: nothing to read", split.split_id())
                self._to_release.append(split)
                continue
            self._partitions[split.topic, split.partition] = partition
            self._topics.add(split.topic)
            self._without_output.append(partition)
            added.append(
                self._library.TopicPartition(split.topic, split.partition, split.starting_offset)
            )
        if added:
            self._free_consumer().incremental_assign(added)

    def notify_no_more_splits(self) -> None:
        """Note that no more partitions will be added."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some records."""
        while self._to_release:
            output.release_output_for_split(self._to_release.pop().split_id())
        if self._without_output:
            for partition in self._without_output:
                partition.output = output.create_output_for_split(partition.split.split_id())
            self._without_output.clear()
        if self._batch_position == len(self._batch) and not self._fetch():
            if self._no_more_splits and not self._partitions:
                return InputStatus.END_OF_INPUT
            return InputStatus.NOTHING_AVAILABLE
        if self._blocks is not None:
            self._emit_block(self._blocks, output)
            return InputStatus.MORE_AVAILABLE
        begin = self._batch_position
        self._batch_position = min(begin + self._step, len(self._batch))
        begun_ns = time.monotonic_ns()
        self._emit(self._batch[begin : self._batch_position], output)
        took_ns = time.monotonic_ns() - begun_ns
        if took_ns > _STEP_NS:
            self._step = max(_LEAST_STEP, self._step // 2)
        elif took_ns < _STEP_NS // 2:
            self._step = min(_BATCH, self._step * 2)
        return InputStatus.MORE_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that is done when records have arrived."""
        if self._waiting is None and self._partitions:
            if self._waiter is None:
                self._waiter = ThreadPoolExecutor(1, thread_name_prefix="kafka-wait")
            self._waiting = self._waiter.submit(self._wait)
        return self._waiting

    def pause_or_resume_splits(
        self, splits_to_pause: list[str], splits_to_resume: list[str]
    ) -> None:
        """Pause and resume partitions."""
        consumer = self._free_consumer()
        for names, act in (
            (set(splits_to_pause), consumer.pause),
            (set(splits_to_resume), consumer.resume),
        ):
            found = [p for p in self._partitions.values() if p.split.split_id() in names]
            if found:
                act([self._library.TopicPartition(p.split.topic, p.split.partition) for p in found])

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        """Return the partitions with their next offsets."""
        if self._source.commits_offsets:
            self._uncommitted[checkpoint_id] = {**self._finished, **self._positions()}
        return [
            KafkaPartitionSplit(
                partition.split.topic,
                partition.split.partition,
                partition.next_offset,
                partition.split.stopping_offset,
            )
            for partition in self._partitions.values()
        ]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the offsets of the checkpoint for the consumer group."""
        offsets = self._uncommitted.pop(checkpoint_id, None)
        for earlier in [number for number in self._uncommitted if number < checkpoint_id]:
            del self._uncommitted[earlier]
        if offsets:
            partition = self._library.TopicPartition
            self._free_consumer().commit(
                offsets=[partition(*key, offset) for key, offset in offsets.items()],
                asynchronous=True,
            )

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Discard the offsets of the checkpoint."""
        self._uncommitted.pop(checkpoint_id, None)

    def close(self) -> None:
        """End the connection."""
        self._wait_ends = True
        if self._waiter is not None:
            self._waiter.shutdown()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _free_consumer(self) -> Any:
        """Return the consumer, once the waiting thread no longer uses it."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._wait_ends = True
            found = waiting.result()
            self._wait_ends = False
            self._batch = self._batch[self._batch_position :] + found
            self._batch_position = 0
        return self._connected()

    def _connected(self) -> Any:
        if self._consumer is None:
            source = self._source
            subtask = self._context.get_index_of_subtask()
            settings = {
                **source.settings,
                "client.id": source.client_id(str(subtask)),
                "enable.partition.eof": source.stopping is not None,
                "on_commit": self._on_commit,
                "error_cb": self._connections.note,
            }
            self._consumer = self._library.Consumer(settings, logger=LibraryLog)
        return self._consumer

    def _fetch(self) -> bool:
        """Take the next batch without waiting, and return whether it has records."""
        self._batch, self._batch_position = [], 0
        if self._waiting is not None:
            if self._waiting.done():
                self._batch = self._waiting.result()
                self.fetched_ms = time.time_ns() // 1_000_000
                self._waiting = None
        elif self._partitions:
            self._batch = self._consumer.consume(_BATCH, 0)
            if self._batch:
                self.fetched_ms = time.time_ns() // 1_000_000
            self._count_pending()
        if self._connections.refusal is not None and not self._batch:
            raise SourceError(self._connections.refusal)
        return bool(self._batch)

    def _wait(self) -> list[Any]:
        """Wait for a record, in the reader's own thread."""
        while not self._wait_ends:
            found: list[Any] = self._consumer.consume(1, _WAIT_S)
            if found or self._connections.refusal is not None:
                return found
        return []

    def _emit(self, messages: list[Any], output: ReaderOutput) -> None:
        """Emit records, and handle the errors among them."""
        begin = 0
        for number, error in enumerate(map(self._library.Message.error, messages)):
            if error is not None:
                self._emit_records(messages[begin:number], output)
                begin = number + 1
                self._on_error(error, messages[number], output)
        self._emit_records(messages[begin:], output)

    def _emit_block(self, blocks: Blocks, output: ReaderOutput) -> None:
        """Emit the fetched records, and those that have arrived meanwhile, as one block."""
        begun_ns = time.monotonic_ns()
        records = size = 0
        while records < self._block_records and size < _BLOCK_BYTES:
            if self._batch_position == len(self._batch) and not self._fetch():
                break
            messages = self._batch[self._batch_position :]
            self._batch_position = len(self._batch)
            records += len(messages)
            size += sum(map(len, messages))
            self._emit(messages, output)
        for partition in list(self._partitions.values()):
            self._end_block(partition, blocks)
        took_ns = time.monotonic_ns() - begun_ns
        if took_ns > _BLOCK_NS:
            self._block_records = max(_BATCH, self._block_records // 2)
        elif took_ns < _BLOCK_NS // 2:
            self._block_records = min(_BLOCK_RECORDS, self._block_records * 2)

    def _end_block(self, partition: _Partition, blocks: Blocks) -> None:
        """Emit the part of a block that is of one partition."""
        taken, partition.taken = partition.taken, []
        if taken:
            assert partition.output is not None
            for element in blocks.elements(taken):
                partition.output.collect(element)

    def _emit_records(self, messages: list[Any], output: ReaderOutput) -> None:
        """Emit records, in runs of consecutive records of one partition."""
        if len(self._partitions) == 1 and not self._finished:  # it is of that one
            if messages:
                self._emit_run(next(iter(self._partitions.values())), messages, output)
            return
        message = self._library.Message
        keys: Iterable[Any] = map(message.partition, messages)
        if len(self._topics) > 1:
            keys = zip(map(message.topic, messages), keys, strict=True)
        begin = 0
        for _, group in groupby(keys):
            end = begin + len(list(group))
            first = messages[begin]
            partition = self._partitions.get((first.topic(), first.partition()))
            if partition is not None:  # else it was read to its end before
                self._emit_run(partition, messages[begin:end], output)
            begin = end

    def _emit_run(self, partition: _Partition, run: list[Any], output: ReaderOutput) -> None:
        """Emit records of one partition, or add them to its block."""
        next_offset, stop = run[-1].offset() + 1, partition.split.stopping_offset
        is_over = stop is not None and next_offset >= stop
        if stop is not None and next_offset > stop:
            run = [message for message in run if message.offset() < stop]
            next_offset = run[-1].offset() + 1 if run else partition.next_offset
        assert partition.output is not None
        if self._blocks is not None:
            if run:
                partition.taken.append(self._blocks.taken(run))
        else:
            self._emit_each(partition.output, run, output)
        partition.next_offset = next_offset
        if is_over:
            self._finish(partition, output)

    def _emit_each(self, of_partition: SourceOutput, run: list[Any], output: ReaderOutput) -> None:
        """Emit the records of Kafka records, those with the same timestamp at once."""
        kept, elements = self._elements(run, output)
        begin = 0
        for (kind, timestamp), group in groupby(map(self._library.Message.timestamp, kept)):
            end = begin + len(list(group))
            of_partition.collect_all(elements[begin:end], timestamp if kind else None)
            begin = end

    def _elements(self, run: list[Any], output: ReaderOutput) -> tuple[list[Any], list[Any]]:
        """Return the Kafka records of a partition that can be deserialized, and their records."""
        deserializer = self._source.deserializer
        if type(deserializer) is ValueOnly:
            decode = builtin_decoder(deserializer.schema)
            if decode is not None:
                # Values that are None or not valid text are handled below.
                with suppress(TypeError, UnicodeDecodeError):
                    return run, list(map(decode, map(self._library.Message.value, run)))
            values = list(map(self._library.Message.value, run))
            decode = deserializer.schema.deserialize
        else:
            values, decode = run, deserializer.deserialize_record
        kept, elements = [], []
        for message, value in zip(run, values, strict=True):
            if value is not None:
                try:
                    element = decode(value)
                except Exception as failure:
                    self._undecodable(message, failure, output)
                    continue
                if element is not None:
                    kept.append(message)
                    elements.append(element)
        return kept, elements

    def _undecodable(self, message: Any, failure: Exception, output: ReaderOutput) -> None:
        partition, offset = f"{message.topic()}-{message.partition()}", message.offset()
        what, data = f"the record of {partition} at offset {offset}", message.value() or b""
        kind, timestamp = message.timestamp()
        self._dead_letters.bury(
            output,
            failure,
            what,
            partition,
            offset,
            data,
            topic=message.topic(),
            partition=message.partition(),
            offset=offset,
            timestamp=timestamp if kind else None,
            key=message.key(),
            headers=message.headers(),
        )

    def _on_error(self, error: Any, message: Any, output: ReaderOutput) -> None:
        partition = self._partitions.get((message.topic(), message.partition()))
        if partition is None:
            return  # it was read to its end before
        code, codes = error.code(), self._library.KafkaError
        name = partition.split.split_id()
        if code == codes._PARTITION_EOF:
            stop = partition.split.stopping_offset
            if stop is not None and message.offset() >= stop:
                # The offsets left are markers of transactions, or were compacted away.
                partition.next_offset = max(partition.next_offset, message.offset())
                self._finish(partition, output)
        elif error.fatal() or code in (
            codes._AUTO_OFFSET_RESET,
            codes.OFFSET_OUT_OF_RANGE,
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
            codes.UNKNOWN_TOPIC_OR_PART,
            codes._UNKNOWN_PARTITION,
            codes._UNKNOWN_TOPIC,
        ):
            raise SourceError(
                f"cannot read {name} from offset {partition.next_offset}: {error.str()}"
            )
        else:
            logger.warning("reading %s failed: %s; continuing", name, error.str())

    def _finish(self, partition: _Partition, output: ReaderOutput) -> None:
        """Stop reading a partition."""
        if self._blocks is not None:
            self._end_block(partition, self._blocks)
        split = partition.split
        del self._partitions[split.topic, split.partition]
        self._finished[split.topic, split.partition] = partition.next_offset
        self._free_consumer().incremental_unassign(
            [self._library.TopicPartition(split.topic, split.partition)]
        )
        output.release_output_for_split(split.split_id())

    def _positions(self) -> dict[tuple[str, int], int]:
        """Return the next offsets of the partitions whose offset is known."""
        return {
            key: partition.next_offset
            for key, partition in self._partitions.items()
            if partition.next_offset != EARLIEST
        }

    def _on_commit(self, error: Any, partitions: Any) -> None:
        if error is None:
            self._commits_succeeded.inc()
        else:
            self._commits_failed.inc()
            logger.warning(
                "cannot commit offsets of %s, the next checkpoint tries again: %s",
                [f"{p.topic}-{p.partition}" for p in partitions],
                error.str(),
            )

    def _count_pending(self) -> None:
        """Count, at an interval, the records at the brokers that are still unread."""
        now_s = time.monotonic()
        if now_s < self._next_count_s:
            return
        self._next_count_s = now_s + _COUNT_EVERY_S
        pending = 0
        for (topic, number), partition in self._partitions.items():
            named = self._library.TopicPartition(topic, number)
            _, high = self._consumer.get_watermark_offsets(named, cached=True)
            if high > 0 and partition.next_offset >= 0:
                pending += max(0, high - partition.next_offset)
        self._pending_records = pending
