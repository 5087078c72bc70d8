"""numpy arrays and Arrow batches as records: bytes that are read in place, without pickling.

Both codecs encode to bytes: write these with the codec of bytes, and decode the value that arrives.
The decoded array or batch is a read-only view of the record's bytes, which it keeps alive::

    arrays = ArrayCodec()
    writer = RecordWriter(partition, selector, codec_for(Types.PRIMITIVE_ARRAY(Types.BYTE())))
    writer.emit(arrays.encode(array))

An array is stored as in an ``.npy`` file of numpy: a header of data type, order and shape, then the
elements.  A batch is stored as a record batch message of Arrow's IPC format, without its schema,
which both sides have.  This module needs numpy and pyarrow (``penstock-engine[columns]``).
"""

from __future__ import annotations

import io
import math
from functools import lru_cache
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptStreamError, SerializationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PREFIX_BYTES = 12
"""Size of a header before its text: magic, version and the length of the text."""


class ArrayCodec:
    """Converts numpy arrays of any shape to bytes and back."""

    def encode(self, array: NDArray[Any]) -> bytes:
        """Return the bytes of an array, which is copied once.

        Raises:
            SerializationError: the value is no array, or one that holds Python objects or a mask.
        """
        _check_array(array)
        if array.dtype.hasobject:
            raise SerializationError(
                f"an array of {array.dtype} holds Python objects, which are not written without "
                "pickling; use an array of numbers, dates or strings of fixed length"
            )
        in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        header = _header(array.dtype, in_columns, array.shape)
        return header + array.tobytes("F" if in_columns else "C")

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the array of the bytes, as a read-only view of them.

        Raises:
            CorruptStreamError: the bytes are not those of one array.
        """
        view = memoryview(data).toreadonly()
        start = _header_size(view)
        shape, in_columns, dtype = _parsed(bytes(view[:start]))
        count = math.prod(shape)
        if min(shape, default=0) < 0 or len(view) - start != count * dtype.itemsize:
            raise CorruptStreamError(
                f"{len(view) - start} bytes for an array of {dtype} with the shape {shape}"
            )
        elements: NDArray[Any] = np.frombuffer(view, dtype, count, start)
        return elements.reshape(shape, order="F" if in_columns else "C")


class RecordBatchCodec:
    """Converts Arrow's record batches of one schema to bytes and back."""

    def __init__(self, schema: pa.Schema) -> None:
        """Create a codec for batches of one schema.

        Raises:
            SerializationError: a field is dictionary-encoded, or contains such a field; its
                dictionary would not be in the bytes of a batch.
        """
        for field in schema:
            if _has_dictionary(field.type):
                raise SerializationError(
                    f"the field {field.name!r} is dictionary-encoded; cast it to the type of its "
                    "values"
                )
        self.schema = schema

    def encode(self, batch: pa.RecordBatch) -> memoryview:
        """Return the bytes of a batch, which is copied once.

        Raises:
            SerializationError: the value is no batch, or one of another schema.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise SerializationError(
                f"a value of the type {type(batch).__name__!r} for the codec of record batches; "
                "encode each batch of a table's to_batches()"
            )
        if not batch.schema.equals(self.schema):
            raise SerializationError(
                f"a batch of the schema {batch.schema} for a codec of {self.schema}"
            )
        return memoryview(batch.serialize()).cast("B")

    def decode(self, data: bytes | memoryview) -> pa.RecordBatch:
        """Return the batch of the bytes, whose columns are views of them.

        The sizes of its columns are checked, but not each value, so that the time does not depend
        on their number.  Call ``batch.validate(full=True)`` before you read bytes that come from
        elsewhere than an encoder.

        Raises:
            CorruptStreamError: the bytes are not those of one batch.
        """
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)
            batch.validate()
            return batch
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptStreamError(f"the bytes of a record batch: {error}") from error


def _check_array(value: object) -> None:
    is_array = isinstance(value, (np.ndarray, np.generic))
    if not is_array or isinstance(value, np.ma.MaskedArray):
        raise SerializationError(
            f"a value of the type {type(value).__name__!r} for the codec of arrays; encode an "
            "array of numpy without a mask"
        )


@lru_cache(maxsize=256)
def _header(dtype: np.dtype[Any], in_columns: bool, shape: tuple[int, ...]) -> bytes:
    """Return the header of an ``.npy`` file, whose length is a multiple of 64."""
    out = io.BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": in_columns,
        "shape": shape,
    }
    np.lib.format.write_array_header_2_0(out, fields)
    return out.getvalue()


def _header_size(view: memoryview) -> int:
    if len(view) < _PREFIX_BYTES or bytes(view[:8]) != b"\x93NUMPY\x02\x00":
        raise CorruptStreamError("the bytes do not begin like those of an array")
    return _PREFIX_BYTES + int.from_bytes(view[8:_PREFIX_BYTES], "little")


@lru_cache(maxsize=256)
def _parsed(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and data type of a header; cached, since parsing is slow."""
    try:
        shape, in_columns, dtype = np.lib.format.read_array_header_2_0(
            io.BytesIO(header[8:]), max_header_size=len(header)
        )
    except (MemoryError, RecursionError, SyntaxError, TokenError, TypeError, ValueError) as error:
        raise CorruptStreamError(f"the header of an array: {error}") from error
    if dtype.hasobject:
        raise CorruptStreamError(f"the header of an array of {dtype}, which holds Python objects")
    return shape, in_columns, dtype


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(index).type) for index in range(kind.num_fields))
