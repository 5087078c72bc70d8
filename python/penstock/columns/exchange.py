"""The exchange of batches between subtasks: the split among channels, and framing.

A batch becomes one record "batch" for each channel that receives enough of its rows.  Rows for the
other channels are written one by one, since a batch of a few rows would cost more.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_bytes import BatchCodec, is_combined
from penstock.columns.batch_schema import batch_schema, fields_of, inexact_field
from penstock.columns.key_columns import KeyColumns
from penstock.columns.partition import Partition
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.errors import CorruptStreamError
from penstock.network.stream_element import RECORD_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.combining import Combiner
    from penstock.columns.evaluation import ColumnProgram
    from penstock.common.typeinfo import TypeInformation

#: Most rows in one record: a few hundred KiB, so that a barrier does not wait long.
MOST_ROWS: Final = 4096

#: The approximate size of a record; rows so large that fewer than `_FEWEST_ROWS` fit travel singly.
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

    def __init__(self, declared: TypeInformation, combined: TypeInformation | None = None) -> None:
        """Create a decoder for a type that satisfies `has_batches`.

        Args:
            declared: The type of the records.
            combined: The type of combined records; None if the sender combines none.
        """
        self._declared = declared
        self._combined = combined

    @cached_property
    def codec(self) -> BatchCodec:
        """The codec of the type."""
        return BatchCodec(self._declared, batch_schema(self._declared))

    @cached_property
    def combined_codec(self) -> BatchCodec:
        """The codec of combined records."""
        if self._combined is None:
            raise CorruptStreamError(
                "a batch of combined records, which this operator cannot merge: restore the job "
                "with pipeline.columns: auto, or from a savepoint"
            )
        return BatchCodec(self._combined, batch_schema(self._combined), is_combined=True)

    def decode(self, payload: Any) -> ColumnBatch:
        """Return the batch of the bytes after a record's tag.

        Raises:
            CorruptStreamError: The bytes are not those of a batch.
        """
        return (self.combined_codec if is_combined(payload) else self.codec).decode(payload)


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
        """Create the splitter.

        Args:
            program: Computes the key of a record.
            key_type: The declared type of the keys; None if they have none.
            kind: The declared kind of the keys, on which their hash depends; None if undeclared.
            max_parallelism: The number of key groups.
            num_channels: The parallelism of the receivers.
        """
        self._program = program
        self._key_type = key_type
        self._kind = kind
        self._shape = (max_parallelism, num_channels)
        self._partitions: dict[KeyColumns, Partition] = {}

    def split(self, batch: ColumnBatch) -> list[tuple[int, ColumnBatch]] | None:
        """Return each channel's part; None if keys must be computed one by one."""
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
        return self._partitions[key].split_by(keys, batch)


class BatchExchange:
    """Splits and frames the batches that a subtask sends to the receivers of one exchange.

    Attributes:
        batches: The records "batch" that were written.
        rows: The rows in them.
        combiner: Combines rows by key; None if the receiver needs every row.
    """

    def __init__(
        self,
        declared: TypeInformation,
        keys: KeyOfBatches | None,
        *,
        is_broadcast: bool = False,
        combiner: Combiner | None = None,
    ) -> None:
        """Create an exchange for a type that satisfies `has_batches`.

        Args:
            declared: The type of the records.
            keys: Splits rows by key; None if all rows go to the first channel, or to every channel.
            is_broadcast: Whether each channel gets every row.
            combiner: Combines rows by key; None if the receiver needs every row.
        """
        self.combiner = combiner
        self._received = ReceivedBatches(declared, None if combiner is None else combiner.declared)
        self._declared = declared
        self._keys = keys
        self._channel = _ALL_CHANNELS if is_broadcast else 0
        self.batches = 0
        self.rows = 0

    def split(self, batch: ColumnBatch) -> Iterator[tuple[int, ColumnBatch, bytes | None]]:
        """Yield channels, their rows, and the framed record of the rows.

        The record is None if its rows must be written one by one; ignore the channel then.
        """
        parts: list[tuple[int, ColumnBatch]] | None = [(self._channel, batch)]
        if batch.declared != self._declared or len(batch) < _FEWEST_ROWS:
            parts = None
        elif self._keys is not None:
            combined = None if self.combiner is None else self.combiner.split(batch)
            if combined is not None:
                for channel, part in _pieces(combined):
                    yield channel, part, self._record(part, self._received.combined_codec)
                return
            parts = self._keys.split(batch)
        if parts is None:
            yield 0, batch, None
            return
        for channel, part in _pieces(parts):
            is_worth_it = len(part) >= _FEWEST_ROWS
            record = self._record(part, self._received.codec) if is_worth_it else None
            yield channel, part, record

    def _record(self, batch: ColumnBatch, codec: BatchCodec) -> bytes:
        """Return the length, the tag and the bytes of a record."""
        payload = codec.encode(batch)
        self.batches += 1
        self.rows += len(batch)
        return b"".join((_PREFIX.pack(len(payload) + 1, RECORD_BATCH), payload))


def _pieces(parts: list[tuple[int, ColumnBatch]]) -> Iterator[tuple[int, ColumnBatch]]:
    """Yield the parts of channels in pieces that fit one record."""
    for channel, part in parts:
        size = max(1, min(MOST_ROWS, len(part) * _MOST_BYTES // (part.data.nbytes + 1)))
        for start in range(0, len(part), size):
            yield channel, part if len(part) <= size else part.slice(start, size)
