"""The numbers of the keys of rows that are stored as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock import network
from penstock.columns.groups import Groups
from penstock.taskexecutor.operators.relational.joins.inner_join import keys_of, packed
from penstock.taskexecutor.operators.relational.key_texts import are_groupable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._native.keys.key_numbers import KeyNumbers as NumbersOfIntegers
    from penstock.columns.array_types import Integers
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class KeyNumbers:
    """Numbers keys from 0: those of integers by a native table, others by a dictionary."""

    def __init__(self, context: OperatorContext, kinds: Sequence[pa.DataType], width: int) -> None:
        """Start without keys.

        Args:
            context: The operator's context.
            kinds: The types of the columns of all keys; a key of each side has its own.
            width: The number of columns of a key.
        """
        self._has_texts = not are_groupable(kinds)
        has_integers = bool(kinds) and all(map(pa.types.is_signed_integer, kinds))
        self._has_table = has_integers and network.runtime() == "native"
        self._width = width
        self._batches = 0
        self.clear()
        context.metric_group().gauge("numBatchesNumbered", lambda: self._batches)

    def clear(self) -> None:
        """Forget all keys."""
        self._numbers: dict[object, int] = {}
        self._table: NumbersOfIntegers | None = None
        if self._has_table:
            from penstock._native.keys import key_numbers

            # With an integer that tells NULL from 0.
            self._table = key_numbers.KeyNumbers(self._width + 1)

    def __len__(self) -> int:
        """Return the number of distinct keys."""
        return len(self._numbers if self._table is None else self._table)

    def of(self, batch: pa.RecordBatch, keys: Sequence[int]) -> tuple[Groups, Integers]:
        """Return the groups of a batch by key, and the number of the key of each group.

        Args:
            batch: The rows.
            keys: The positions of the columns of the key.
        """
        if self._table is None:
            groups, found = keys_of(batch, keys, has_texts=self._has_texts)
            numbers = self._numbers
            listed = [numbers.setdefault(key, len(numbers)) for key in found]
            return groups, np.array(listed, np.int64)
        self._batches += 1
        codes, distinct = np.empty((2, batch.num_rows), np.int64)
        count = self._table.number(packed([batch.column(key) for key in keys]), codes, distinct)
        return Groups(codes, count), distinct[:count]
