"""The byte form of a batch: a header, and Arrow's message of a record batch without its schema.

``docs/formats/column-batch.md`` has the byte table.  Both ends know the schema, so it is not sent.
Arrow's overhead is about 100 bytes, and 80 for each column.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.column_batch import ColumnBatch
from penstock.errors import CorruptStreamError
from penstock.formats.arrow_types import arrow_library

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

#: Version, flags, two bytes of zero, the number of rows, the timestamp of all rows.
_HEADER: Final = struct.Struct(">BBHIq")
_VERSION: Final = 1
_HAS_TIMESTAMPS: Final = 1
_HAS_KINDS: Final = 2
_IS_COMBINED: Final = 4


class BatchCodec:
    """Writes and reads the batches of one stream; both ends create it with the same schema."""

    def __init__(
        self, declared: TypeInformation, schema: Any, *, is_combined: bool = False
    ) -> None:
        """Create a codec.

        Args:
            declared: The type of the records.
            schema: The Arrow schema of their columns.
            is_combined: Whether the rows are partial aggregates.
        """
        pa = arrow_library("a batch of columns")
        self._declared = declared
        self._schema = schema
        self._flags = _IS_COMBINED if is_combined else 0
        timestamps = pa.field("", pa.int64(), nullable=False)
        kinds = pa.field("", pa.int8(), nullable=False)
        #: The schema of the message, by the flags.
        self._schemas = {
            flags | self._flags: pa.schema(
                [
                    *schema,
                    *([timestamps] if flags & _HAS_TIMESTAMPS else ()),
                    *([kinds] if flags & _HAS_KINDS else ()),
                ]
            )
            for flags in range(4)
        }
        self._unread = (
            pa.ArrowException,
            EOFError,
            MemoryError,
            OSError,
            OverflowError,
            ValueError,
        )

    def encode(self, batch: ColumnBatch) -> bytes:
        """Return the bytes of a batch.

        Raises:
            ValueError: The batch is of another schema.
        """
        import pyarrow as pa

        if batch.data.schema != self._schema:
            raise ValueError(f"a batch of {batch.data.schema}, not of {self._schema}")
        flags, timestamp, data = self._flags, batch.timestamps, batch.data
        added = []
        if not isinstance(timestamp, int):
            flags, timestamp = flags | _HAS_TIMESTAMPS, 0
            added.append(batch.timestamps)
        if batch.kinds is not None:
            flags |= _HAS_KINDS
            added.append(batch.kinds)
        if added:
            data = pa.RecordBatch.from_arrays([*data.columns, *added], schema=self._schemas[flags])
        header = _HEADER.pack(_VERSION, flags, 0, len(batch), timestamp)
        return b"".join((header, data.serialize()))

    def decode(self, data: Any) -> ColumnBatch:
        """Decode bytes that `encode` wrote; the batch refers to the bytes.

        Args:
            data: Bytes, or another object with a read-only buffer.

        Raises:
            CorruptStreamError: The bytes are not those of a batch of this schema.
        """
        import pyarrow as pa

        size = len(data)
        if size < _HEADER.size:
            raise CorruptStreamError(f"a batch of {size} bytes, its header alone is larger")
        version, flags, zeros, rows, timestamp = _HEADER.unpack_from(data)
        if version != _VERSION or flags not in self._schemas or zeros != 0:
            raise CorruptStreamError(
                f"a batch of version {version} with flags {flags} and {zeros}, not of version "
                f"{_VERSION}"
            )
        if flags & _HAS_TIMESTAMPS and timestamp != 0:
            raise CorruptStreamError("a batch with one timestamp for all rows and one for each")
        reader = pa.BufferReader(pa.py_buffer(data).slice(_HEADER.size))
        try:
            found = pa.ipc.read_record_batch(pa.ipc.read_message(reader), self._schemas[flags])
            found.validate(full=True)
        except self._unread as error:
            raise CorruptStreamError(f"a batch of {size} bytes cannot be read: {error}") from None
        if reader.tell() + _HEADER.size != size:
            raise CorruptStreamError(
                f"a batch of {size} bytes, {reader.tell() + _HEADER.size} were read"
            )
        if found.num_rows != rows:
            raise CorruptStreamError(f"a batch of {rows} rows has {found.num_rows}")
        return self._batch(found, flags, timestamp)

    def _batch(self, found: Any, flags: int, timestamp: int) -> ColumnBatch:
        """Return the batch of the columns of a message."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = found.columns
        timestamps: Any = timestamp
        kinds = None
        if flags & _HAS_KINDS:
            kinds = columns.pop()
            limits = pc.min_max(kinds).as_py()
            if kinds.null_count or (len(kinds) and not 0 <= limits["min"] <= limits["max"] <= 3):
                raise CorruptStreamError(f"a batch with rows of the kinds {limits}")
        if flags & _HAS_TIMESTAMPS:
            timestamps = columns.pop()
            if timestamps.null_count:
                raise CorruptStreamError("a batch with rows without a timestamp")
        if flags & (_HAS_TIMESTAMPS | _HAS_KINDS):
            found = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return ColumnBatch(found, self._declared, timestamps, kinds)


def is_combined(data: Any) -> bool:
    """Return whether the bytes of a batch say that its rows are partial aggregates."""
    return len(data) > 1 and bool(data[1] & _IS_COMBINED)
