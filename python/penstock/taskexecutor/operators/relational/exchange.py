"""The exchange of batches by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock import network
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.key_columns import KeyColumns, json_hashes
from penstock.columns.partition import Partition
from penstock.columns.record_batches import batch_bytes
from penstock.common.typeinfo import Types
from penstock.graph.key_groups import key_group, operator_index
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.key_texts import key_column, key_texts

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class PartitionOperator(RelationalOperator):
    """Emits, for each receiver of rows of a batch, a pair of a key and the bytes of those rows.

    The key only selects the receiver: it is that of the first row that the receiver ever got.
    """

    def __init__(self, context: OperatorContext, keys: tuple[int, ...]) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            keys: Positions of the columns of the key.
        """
        super().__init__(context)
        self.keys = keys
        self.channels = 1
        self.max_parallelism = 1
        for leaving in context.config.network_outputs:
            partition = context.environment.partitions[leaving.partition]
            self.channels = partition.num_subpartitions
            self.max_parallelism = leaving.partitioner.max_parallelism
        self.partition = Partition(KeyColumns((0,)), self.max_parallelism, self.channels)
        self.hash = network.key_hash("STRING")
        #: By receiver, one of its keys.
        self.texts: dict[int, str] = {}
        self.batches_in_columns = 0
        #: Those whose keys were hashed without creating their texts.
        self.batches_hashed = 0
        group = context.metric_group()
        group.gauge("numBatchesHashed", lambda: self.batches_hashed)
        group.gauge("numBatchesInColumns", lambda: self.batches_in_columns)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        if self.channels == 1 or not self.keys:
            self._send(0, batch)
            return
        hashes = json_hashes([batch.column(key) for key in self.keys])
        if hashes is not None:
            self.batches_hashed += 1
            parts = self.partition.split_hashed(hashes, batch)
        else:
            texts = key_column(batch, self.keys)
            if texts is None:
                self._process_rows(batch)
                return
            keys = ColumnBatch(pa.RecordBatch.from_arrays([texts], ["key"]), Types.STRING())
            parts = self.partition.split_by(keys, batch)
        self.batches_in_columns += 1
        for channel, part in parts:
            self._send(channel, part)

    def _send(self, channel: int, part: pa.RecordBatch) -> None:
        text = self.texts.get(channel)
        if text is None:
            text = self.texts[channel] = key_texts(part.slice(0, 1), self.keys)[0]
        self.output.collect((text, batch_bytes(part)), MIN_TIMESTAMP)

    def _process_rows(self, batch: pa.RecordBatch) -> None:
        """Process a batch whose keys are hashed one by one."""
        parts: dict[int, list[int]] = {}
        known: dict[str, int] = {}
        for row, text in enumerate(key_texts(batch, self.keys)):
            channel = known.get(text)
            if channel is None:
                group = key_group(self.hash(text), self.max_parallelism)
                channel = operator_index(self.max_parallelism, self.channels, group)
                known[text] = channel
            parts.setdefault(channel, []).append(row)
        for channel, rows in parts.items():
            self._send(channel, batch.take(pa.array(rows, pa.int32())))
