"""The byte form of batches: written batches are read back, and damaged bytes are rejected."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.columns.batch_bytes import BatchCodec
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import NO_TIMESTAMP, ColumnBatch
from penstock.common.typeinfo import Types
from penstock.errors import CorruptStreamError

ROW = Types.ROW_NAMED(
    ["number", "text", "real", "flag"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()],
)
SCHEMA = batch_schema(ROW)
CODEC = BatchCodec(ROW, SCHEMA)

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
RECORDS = st.tuples(
    st.none() | LONGS, st.none() | TEXTS, st.none() | st.floats(), st.none() | st.booleans()
)


@st.composite
def batches(draw):
    rows = draw(st.lists(RECORDS, max_size=12))
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    timestamps = draw(st.sampled_from([NO_TIMESTAMP, 0, 2**62]))
    if draw(st.booleans()):
        size = len(rows)
        stamps = draw(st.lists(LONGS, min_size=size, max_size=size))
        timestamps = pa.array(stamps, pa.int64())
    kinds = None
    if draw(st.booleans()):
        kinds = pa.array([n % 4 for n in range(len(rows))], pa.int8())
    data = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    made = ColumnBatch(data, ROW, timestamps, kinds)
    start = draw(st.integers(0, len(rows)))
    return made.slice(start, draw(st.integers(0, len(rows) - start)))


def parts(batch):
    kinds = None if batch.kinds is None else batch.kinds.to_pylist()
    # Compared as text, since NaN is not equal to itself.
    return repr(batch.data.to_pylist()), batch.timestamp_list(), kinds


@settings(max_examples=200, deadline=None)
@given(batches())
def test_written_batches_are_read_back(batch):
    assert parts(CODEC.decode(CODEC.encode(batch))) == parts(batch)


@settings(max_examples=300, deadline=None)
@given(batches(), st.data())
def test_damaged_bytes_are_read_or_refused(batch, data):
    """No damage ends the process or raises another error, and batches that are read are whole."""
    damaged = bytearray(CODEC.encode(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        found = CODEC.decode(bytes(damaged))
    except CorruptStreamError:
        return
    assert len(found.rows()) == len(found.timestamp_list()) == len(found)


@settings(max_examples=100, deadline=None)
@given(batches(), st.data())
def test_truncated_and_longer_bytes_are_rejected(batch, data):
    whole = CODEC.encode(batch)
    end = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:end], whole + b"\0"):
        with pytest.raises(CorruptStreamError):
            CODEC.decode(wrong)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data):
    with pytest.raises(CorruptStreamError):
        CODEC.decode(b"\1\0\0\0" + data)


def one_batch():
    data = pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.array(["a"]), pa.array([0.5]), pa.array([True])], schema=SCHEMA
    )
    return ColumnBatch(data, ROW, 5)


@pytest.mark.parametrize(("place", "byte"), [(0, 2), (1, 4), (2, 1), (7, 2)])
def test_each_part_of_the_header_counts(place, byte):
    damaged = bytearray(CODEC.encode(one_batch()))
    damaged[place] = byte
    with pytest.raises(CorruptStreamError):
        CODEC.decode(bytes(damaged))


def test_a_batch_of_another_schema_is_neither_written_nor_read():
    other = ColumnBatch(pa.RecordBatch.from_pydict({"value": [1]}), Types.LONG())
    with pytest.raises(ValueError, match="not of"):
        CODEC.encode(other)
    data = BatchCodec(Types.LONG(), batch_schema(Types.LONG())).encode(other)
    with pytest.raises(CorruptStreamError):
        CODEC.decode(data)


def test_the_overhead_of_a_batch_is_small():
    """The bytes in addition to those of the columns, which the byte table names."""
    data = CODEC.encode(one_batch())
    assert len(data) < 16 + 100 + 80 * 4 + 8 * 16
