"""Messages of topics as the rows and columns of a table."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.kafka.deserialization import Blocks, BlockSchema
from penstock.formats.file_format import BlockCounts
from penstock.table.connectors.batches import BATCH_ROWS, record_batch
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.types import DataTypes
from penstock.table.types.arrow_types import arrow_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.table import types
    from penstock.table.formats.row_format import RowFormat
    from penstock.table.types import RowType

METADATA: Final[dict[str, types.DataType]] = {
    "topic": DataTypes.STRING().not_null(),
    "partition": DataTypes.INT().not_null(),
    "headers": DataTypes.MAP(DataTypes.STRING().not_null(), DataTypes.BYTES()).not_null(),
    "offset": DataTypes.BIGINT().not_null(),
    "timestamp": DataTypes.TIMESTAMP_LTZ(3).not_null(),
    "timestamp-type": DataTypes.STRING().not_null(),
}
"""The metadata columns of records."""

_TIMESTAMP_TYPES: Final = ("NoTimestampType", "CreateTime", "LogAppendTime")
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""The beginning of timestamps."""

_KEY: Final = methodcaller("key")
_VALUE_OF: Final = methodcaller("value")


@dataclass(frozen=True)
class Message:
    """A record of a topic.

    Attributes:
        key: The key, or None.
        value: The value; None for a tombstone.
        metadata: The values of the requested metadata.
    """

    key: bytes | None
    value: bytes | None
    metadata: tuple[Any, ...] = ()


class MessageReader:
    """Converts the client's records to messages.

    Args:
        keys: The requested metadata.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    def __call__(self, record: Any) -> Message:
        """Return the message of a record."""
        found = tuple(_metadata(record, key) for key in self._keys)
        return Message(record.key(), record.value(), found)


def _metadata(record: Any, key: str) -> Any:
    match key:
        case "topic":
            return record.topic()
        case "partition":
            return record.partition()
        case "offset":
            return record.offset()
        case "headers":
            return dict(record.headers() or ())
        case "timestamp":
            return EPOCH + datetime.timedelta(milliseconds=record.timestamp()[1])
        case "timestamp-type":
            return _TIMESTAMP_TYPES[record.timestamp()[0]]
    raise AssertionError(key)


@dataclass(frozen=True)
class Layout:
    """The parts of a record that store the physical columns.

    Attributes:
        row_type: The physical columns.
        key: The positions of the columns in the key.
        value: The positions of the columns in the value.
        key_format: The format of keys; None if keys store no column.
        value_format: The format of values.
        is_upsert: Whether only the last record of a key counts.
    """

    row_type: RowType
    key: tuple[int, ...]
    value: tuple[int, ...]
    key_format: RowFormat | None
    value_format: RowFormat
    is_upsert: bool = False

    def rows(self, message: Message) -> Iterator[tuple[int, list[Any], Sequence[Any]]]:
        """Yield the kind, the physical columns and the format's metadata of a message's rows."""
        width = len(self.value)
        values: list[Any] = [None] * len(self.row_type)
        if self.key_format is not None and message.key is not None:
            for _, key in self.key_format.decode(message.key):
                for position, value in zip(self.key, key, strict=True):
                    values[position] = value
        if message.value is None:
            if self.is_upsert:
                yield DELETE, values, [None] * len(self.value_format.metadata_keys)
            return
        for kind, row in self.value_format.decode(message.value):
            made = list(values)
            for position, value in zip(self.value, row[:width], strict=True):
                made[position] = value
            yield (UPDATE_AFTER if self.is_upsert else kind), made, row[width:]

    def why_not_in_columns(self) -> str | None:
        """Return why messages are never read as columns; None if they may be."""
        if self.is_upsert:
            return "as an upsert is compared with the row before"
        for row_format in (self.value_format, self.key_format):
            if row_format is not None and (reason := row_format.why_not_in_columns()) is not None:
                return reason
        return None

    def columns(
        self, keys: Sequence[bytes | None], values: Sequence[bytes]
    ) -> list[pa.Array] | None:
        """Return the physical columns of messages, as `rows` reads them.

        Returns:
            None if `rows` must read the messages, or must explain an error.
        """
        by_position: dict[int, pa.Array] = {}
        if self.key_format is not None:
            present = [key for key in keys if key is not None]
            read = self.key_format.columns(present) if len(present) == len(keys) else None
            if read is None:
                return None
            by_position.update(zip(self.key, read, strict=True))
        read = self.value_format.columns(values)
        if read is None:
            return None
        by_position.update(zip(self.value, read, strict=True))
        return [by_position[position] for position in range(len(self.row_type))]

    def record(self, kind: int, row: Sequence[Any]) -> tuple[bytes | None, bytes | None]:
        """Return the key and the value of a row; a deleted key has no value."""
        key = None
        if self.key_format is not None:
            key = self.key_format.encode(INSERT, [row[i] for i in self.key])
        if self.is_upsert:
            if kind not in ADDED:
                return key, None
            kind = INSERT
        return key, self.value_format.encode(kind, [row[i] for i in self.value])


def told(keys: Sequence[str], message: Message, extra: Sequence[Any]) -> list[Any]:
    """Return the values of metadata columns, from the record and from the format."""
    of_record, of_format = iter(message.metadata), iter(extra)
    return [next(of_record if key in METADATA else of_format) for key in keys]


class BlocksOfTable(BlockSchema):
    """Schema that reads blocks of Kafka records as record batches.

    Args:
        layout: The parts of records that store the columns.
        row_type: The columns of the batches, including metadata.
        keys: The requested metadata.
        with_kinds: Whether batches have a column of row kinds.
    """

    def __init__(
        self,
        layout: Layout,
        row_type: RowType,
        keys: Sequence[str] = (),
        *,
        with_kinds: bool = False,
    ) -> None:
        super().__init__()
        self.layout = layout
        self.row_type = row_type
        self.keys = tuple(keys)
        self.with_kinds = with_kinds

    def blocks(self, metrics: Any) -> MessageBlocks:
        """Return the converter of one reader, with counts of its blocks."""
        made = MessageBlocks(self)
        metrics.gauge("numBlocksInColumns", lambda: made.counts.in_columns)
        metrics.gauge("numBlocksInRows", lambda: made.counts.in_rows)
        return made


#: Of some Kafka records: the keys, the values, and the values of each metadata column.
_Taken = tuple[list[Any], list[Any], list[list[Any]]]


class MessageBlocks(Blocks):
    """Creates the batches of blocks: by columns, or from rows if the format has none for a block.

    Attributes:
        counts: The numbers of both kinds of blocks.
    """

    def __init__(self, table: BlocksOfTable) -> None:
        """Create a converter for the messages of a table."""
        self._table = table
        self._layout = table.layout
        self._of_record = [key for key in table.keys if key in METADATA]
        self._has_keys = table.layout.key_format is not None
        # The format would have to say by column what it says by row.
        is_plain = not table.with_kinds and len(self._of_record) == len(table.keys)
        self._is_in_columns = is_plain and table.layout.why_not_in_columns() is None
        self.counts = BlockCounts()

    def taken(self, records: list[Any]) -> _Taken:
        """Return keys, values and metadata of Kafka records."""
        keys = list(map(_KEY, records)) if self._has_keys else [None] * len(records)
        metadata = [[_metadata(record, key) for record in records] for key in self._of_record]
        return keys, list(map(_VALUE_OF, records)), metadata

    def elements(self, taken: list[_Taken]) -> Iterator[Any]:
        """Yield the batches of a block; none for messages without rows."""
        keys = [key for part, _, _ in taken for key in part]
        values = [value for _, part, _ in taken for value in part]
        metadata = [
            [value for _, _, parts in taken for value in parts[column]]
            for column in range(len(self._of_record))
        ]
        batch = self._batch(keys, values, metadata) if self._is_in_columns else None
        if batch is None:
            self.counts.in_rows += 1
            yield from self._batches_of_rows(keys, values, metadata)
            return
        self.counts.in_columns += 1
        if batch.num_rows:
            yield batch

    def _batch(
        self, keys: list[Any], values: list[Any], metadata: list[list[Any]]
    ) -> pa.RecordBatch | None:
        """Return the batch of a block by columns; None if its rows must be read."""
        import pyarrow as pa

        if None in values:  # tombstones have no rows
            kept = [place for place, value in enumerate(values) if value is not None]
            keys, values, *metadata = (
                [column[place] for place in kept] for column in (keys, values, *metadata)
            )
        columns = self._layout.columns(keys, values)
        if columns is None:
            return None
        kinds = [METADATA[key] for key in self._of_record]
        columns += map(arrow_array, metadata, kinds)
        return pa.RecordBatch.from_arrays(columns, names=self._table.row_type.field_names())

    def _batches_of_rows(
        self, keys: list[Any], values: list[Any], metadata: list[list[Any]]
    ) -> Iterator[Any]:
        table = self._table
        of_record = zip(*metadata, strict=True) if metadata else [()] * len(values)
        rows: list[Any] = []
        for key, value, found in zip(keys, values, of_record, strict=True):
            message = Message(key, value, found)
            rows += [
                (kind, [*row, *told(table.keys, message, extra)])
                for kind, row, extra in self._layout.rows(message)
            ]
        start = 0
        while start < len(rows):
            end = start + BATCH_ROWS
            # The old and the new row of an update stay together.
            end += end < len(rows) and rows[end - 1][0] == UPDATE_BEFORE
            yield record_batch(rows[start:end], table.row_type, with_kinds=table.with_kinds)
            start = end
