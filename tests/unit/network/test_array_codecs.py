"""numpy arrays and Arrow batches as bytes: they are read back equal, as views of the bytes."""

import numpy as np
import pyarrow as pa
import pytest
from penstock.errors import CorruptStreamError, SerializationError
from penstock.network import ArrayCodec, RecordBatchCodec

ARRAYS = [
    pytest.param(np.arange(12, dtype=np.int64).reshape(3, 4), id="rows"),
    pytest.param(np.asfortranarray(np.arange(12.0).reshape(3, 4)), id="columns"),
    pytest.param(np.arange(20)[::3], id="with gaps"),
    pytest.param(np.array(7, dtype=">u2"), id="scalar, big-endian"),
    pytest.param(np.empty((0, 3), dtype=np.float32), id="empty"),
    pytest.param(np.array(["a", "bcd"]), id="strings"),
    pytest.param(np.array([(1, 2.5)], dtype=[("number", "i4"), ("value", "f8")]), id="fields"),
    pytest.param(np.array(["2024-02-29"], dtype="datetime64[D]"), id="dates"),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_arrays(array):
    """An array is read back equal, read-only, without a copy of its bytes."""
    codec = ArrayCodec()
    data = codec.encode(array)
    found = codec.decode(data)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert np.array_equal(found, array)
    assert not found.flags.writeable
    if found.size:
        assert np.shares_memory(found, np.frombuffer(data, np.uint8))


def test_objects_are_not_pickled():
    with pytest.raises(SerializationError, match="Python objects"):
        ArrayCodec().encode(np.array([object()]))
    header = ArrayCodec().encode(np.zeros(1, np.int64)).replace(b"'<i8'", b"'|O' ")
    with pytest.raises(CorruptStreamError):
        ArrayCodec().decode(header)


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-1], lambda data: data + b"x", lambda data: data[1:]],
)
def test_damaged_arrays(damage):
    data = ArrayCodec().encode(np.arange(4))
    with pytest.raises(CorruptStreamError):
        ArrayCodec().decode(damage(data))


def test_header_beyond_the_bytes():
    """A length that exceeds the record is an error of its stream."""
    data = b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b"{}"
    with pytest.raises(CorruptStreamError):
        ArrayCodec().decode(data)


def test_batches():
    """A batch is read back equal, and its columns are views of the bytes."""
    batch = pa.record_batch({"number": pa.array([1, None, 3]), "text": pa.array(["a", "b", None])})
    codec = RecordBatchCodec(batch.schema)
    assert codec.encode(batch).format == "B"
    data = bytes(codec.encode(batch))
    found = codec.decode(data)
    assert found.equals(batch)
    first = pa.py_buffer(data).address
    address = found.column("number").buffers()[1].address
    assert first <= address < first + len(data)


def test_refused_batches():
    batch = pa.record_batch({"number": pa.array([1])})
    codec = RecordBatchCodec(batch.schema)
    with pytest.raises(SerializationError, match="schema"):
        codec.encode(pa.record_batch({"other": pa.array([1])}))
    with pytest.raises(CorruptStreamError, match="record batch"):
        codec.decode(b"no batch")
    nested = pa.schema({"names": pa.list_(pa.dictionary(pa.int8(), pa.string()))})
    with pytest.raises(SerializationError, match="dictionary-encoded"):
        RecordBatchCodec(nested)
