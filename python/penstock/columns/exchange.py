"""Batches on their way between subtasks: their split among channels, and their records' frames.

A batch becomes one record "batch" for each channel that gets enough of its rows; those of the
other channels are written one by one, so that a few rows cost no more than they did.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_bytes import BatchCodec
from penstock.columns.batch_schema import batch_schema, fields_of, inexact_field
from penstock.columns.key_columns import KeyColumns
from penstock.columns.partition import Partition
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.network.stream_element import RECORD_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.evaluation import ColumnProgram
    from penstock.common.typeinfo import TypeInformation

#: Rows of one record at most, so that it is some hundred KiB and a barrier does not wait long.
MOST_ROWS: Final = 4096

#: Bytes of one record, about; rows of which fewer than `_FEWEST_ROWS` fit are written one by one.
_MOST_BYTES: Final = 1 << 20

#: Fewer rows of a channel are written one by one.
_FEWEST_ROWS: Final = 16

_PREFIX: Final = struct.Struct(">IB")

#: A batch goes to each channel as it is, or to the first one.
_ALL_CHANNELS: Final = -1


def has_batches(declared: TypeInformation | None) -> bool:
    """Return whether records of a declared type can be sent as batches."""
    if not isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return False
    return bool(fields_of(declared)) and inexact_field(declared) is None


class ReceivedBatches:
    """Decodes the batches of records of one type; pyarrow is imported with the first of them."""

    def __init__(self, declared: TypeInformation) -> None:
        """Keeps the type, of which `has_batches` is true."""
        self._declared = declared

    @cached_property
    def codec(self) -> BatchCodec:
        """The codec of the type."""
        return BatchCodec(self._declared, batch_schema(self._declared))

    def decode(self, payload: Any) -> ColumnBatch:
        """Return the batch of the bytes behind a record's tag.

        Raises:
            CorruptStreamError: They are not those of a batch.
        """
        return self.codec.decode(payload)


class KeyOfBatches:
    """Splits batches by keys that a program computes."""

    def __init__(
        self,
        program: ColumnProgram,
        key_type: TypeInformation | None,
        kind: str | None,
        max_parallelism: int,
        num_channels: int,
    ) -> None:
        """Prepares for batches.

        Args:
            program: Computes the key of a record.
            key_type: The declared type of the keys; None if they have none.
            kind: What the hash of keys of that type depends on; None as well.
            max_parallelism: The number of key groups.
            num_channels: The parallelism of the receivers.
        """
        self._program = program
        self._key_type = key_type
        self._kind = kind
        self._shape = (max_parallelism, num_channels)
        self._partitions: dict[KeyColumns, Partition] = {}

    def split(self, batch: ColumnBatch) -> list[tuple[int, ColumnBatch]] | None:
        """Return the part of each channel; None if keys have to be taken one by one."""
        keys = self._program.evaluated(batch)
        if keys is None:
            return None
        if self._key_type is not None and keys.declared != self._key_type:
            return None
        count = keys.data.num_columns
        is_tuple = isinstance(keys.declared, (RowTypeInfo, TupleTypeInfo))
        key = KeyColumns(tuple(range(count)), is_tuple, None if is_tuple else self._kind)
        if key not in self._partitions:
            self._partitions[key] = Partition(key, *self._shape)
        return self._partitions[key].split(batch, keys)


class BatchExchange:
    """Splits and frames the batches that a subtask sends to the receivers of one exchange.

    Attributes:
        batches: The records "batch" that were written.
        rows: The rows in them.
    """

    def __init__(
        self, declared: TypeInformation, keys: KeyOfBatches | None, *, is_broadcast: bool = False
    ) -> None:
        """Prepares for records of a type, of which `has_batches` is true.

        Args:
            declared: The type.
            keys: Says which rows go where; None if all go to the first channel, or to all.
            is_broadcast: Whether each channel gets every row.
        """
        self._received = ReceivedBatches(declared)
        self._declared = declared
        self._keys = keys
        self._channel = _ALL_CHANNELS if is_broadcast else 0
        self.batches = 0
        self.rows = 0

    def split(self, batch: ColumnBatch) -> Iterator[tuple[int, ColumnBatch, bytes | None]]:
        """Yield channels, the rows that go there, and the framed record of them.

        The record is None if its rows are to be written one by one; the channel does not count
        then.
        """
        parts: list[tuple[int, ColumnBatch]] | None = [(self._channel, batch)]
        if batch.declared != self._declared or len(batch) < _FEWEST_ROWS:
            parts = None
        elif self._keys is not None:
            parts = self._keys.split(batch)
        if parts is None:
            yield 0, batch, None
            return
        for channel, part in parts:
            size = max(1, min(MOST_ROWS, len(part) * _MOST_BYTES // (part.data.nbytes + 1)))
            for start in range(0, len(part), size):
                piece = part if len(part) <= size else part.slice(start, size)
                yield channel, piece, self._framed(piece)

    def _framed(self, batch: ColumnBatch) -> bytes | None:
        """Return the length, the tag and the bytes of a record; None for a few rows."""
        if len(batch) < _FEWEST_ROWS:
            return None
        payload = self._received.codec.encode(batch)
        self.batches += 1
        self.rows += len(batch)
        return b"".join((_PREFIX.pack(len(payload) + 1, RECORD_BATCH), payload))
