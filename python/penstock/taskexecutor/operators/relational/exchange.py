"""The exchange of batches by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import network
from penstock.graph.key_groups import key_group
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import batch_bytes, key_texts

if TYPE_CHECKING:
    from penstock.taskexecutor.task.operator_context import OperatorContext


class PartitionOperator(RelationalOperator):
    """Emits pairs of a key and the bytes of a batch whose rows belong to the key's key group."""

    def __init__(
        self, context: OperatorContext, keys: tuple[int, ...], is_split: bool, max_parallelism: int
    ) -> None:
        """Creates the operator.

        Args:
            context: The operator's context.
            keys: Positions of the columns of the key.
            is_split: Whether there is more than one receiver.
            max_parallelism: The number of key groups of the receiver.
        """
        super().__init__(context)
        self.keys = keys
        self.is_split = is_split and bool(keys)
        self.max_parallelism = max_parallelism
        self.hash = network.key_hash("STRING")

    def process_columns(self, batch: Any) -> None:
        """Process a batch."""
        if not self.is_split:
            first = key_texts(batch.slice(0, 1), self.keys)[0]
            self.output.collect((first, batch_bytes(batch)), MIN_TIMESTAMP)
            return
        texts = key_texts(batch, self.keys)
        groups: dict[int, tuple[str, list[int]]] = {}
        known: dict[str, int] = {}
        for row, text in enumerate(texts):
            group = known.get(text)
            if group is None:
                group = known[text] = key_group(self.hash(text), self.max_parallelism)
            found = groups.get(group)
            if found is None:
                groups[group] = (text, [row])
            else:
                found[1].append(row)
        for text, rows in groups.values():
            part = batch.take(pa.array(rows, pa.int32()))
            self.output.collect((text, batch_bytes(part)), MIN_TIMESTAMP)
