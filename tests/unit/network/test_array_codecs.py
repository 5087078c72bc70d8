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


@pytest.mark.parametrize(
    ("header", "damaged"),
    [
        (b"(2, 3)", b"(2, 3 "),
        (b"(2, 3)", b"(-2,-3"),
        (b"(2, 3)", b"(-2,3)"),
        (b", 'fortran", b",b'fortran"),
        (b"{'descr'", b"[[[[[[[["),
    ],
)
def test_damaged_headers(header, damaged):
    """Whatever numpy's parser raises, the bytes are at fault."""
    data = ArrayCodec().encode(np.zeros((2, 3)))
    assert header in data
    with pytest.raises(CorruptStreamError):
        ArrayCodec().decode(data.replace(header, damaged))


def test_many_fields():
    """A header may be longer than the 10,000 bytes that numpy reads by default."""
    array = np.zeros(2, [(f"field_{number}", "i4") for number in range(1000)])
    assert ArrayCodec().decode(ArrayCodec().encode(array)).dtype == array.dtype


@pytest.mark.parametrize("value", [[1, 2], None, np.ma.masked_array([1, 2], [True, False])])
def test_values_that_are_no_arrays(value):
    """A mask would be lost."""
    with pytest.raises(SerializationError, match=type(value).__name__):
        ArrayCodec().encode(value)


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
    with pytest.raises(SerializationError, match=r"'Table'.*to_batches"):
        codec.encode(pa.table({"number": [1]}))
    # The message promises more values than the bytes have.
    longer = RecordBatchCodec(pa.schema({"number": pa.string()}))
    with pytest.raises(CorruptStreamError, match="record batch"):
        longer.decode(bytes(codec.encode(batch)))
    nested = pa.schema({"names": pa.list_(pa.dictionary(pa.int8(), pa.string()))})
    with pytest.raises(SerializationError, match="dictionary-encoded"):
        RecordBatchCodec(nested)


class Names(pa.ExtensionType):
    """A type of the user's that is stored with a dictionary."""

    def __init__(self):
        super().__init__(pa.dictionary(pa.int8(), pa.string()), "penstock.names")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def test_dictionaries_behind_extension_types():
    with pytest.raises(SerializationError, match="dictionary-encoded"):
        RecordBatchCodec(pa.schema({"names": Names()}))
