"""Batches between subtasks: rows reach the same channels as single records, in order."""

import struct

import pyarrow as pa
import pytest
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.exchange import (
    MOST_ROWS,
    BatchExchange,
    KeyOfBatches,
    ReceivedBatches,
    has_batches,
)
from penstock.common.typeinfo import Types
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime
from penstock.network.pure.channel_selector import make_selector
from penstock.network.stream_element import RECORD_BATCH
from penstock.serialization.key_types import key_type_of

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

ROW = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])


def batch_of(count):
    numbers = list(range(count))
    names = [f"name {n % 7}" for n in numbers]
    data = pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(names)], schema=batch_schema(ROW)
    )
    return ColumnBatch(data, ROW, pa.array(numbers, pa.int64()))


def keys_of(select, key_type=None, channels=3):
    evaluation = Evaluation()
    program = evaluation.over_columns(evaluation.program(select, 1, (ROW,)))
    kind = None if key_type is None else key_type_of(key_type).kind
    return KeyOfBatches(program, key_type, kind, 128, channels)


def received(framed):
    """Return the batch of a framed record."""
    length, tag = struct.unpack_from(">IB", framed)
    assert (length, tag) == (len(framed) - 4, RECORD_BATCH)
    return ReceivedBatches(ROW).decode(framed[5:])


@pytest.mark.parametrize(
    ("select", "key_type"),
    [
        (lambda r: r.name, None),
        (lambda r: r.number, None),
        (lambda r: r.number, Types.LONG()),
        (lambda r: (r.name, r.number % 2), None),
        (lambda r: r, None),
    ],
)
def test_rows_go_where_their_keys_go(select, key_type):
    made = batch_of(500)
    exchange = BatchExchange(ROW, keys_of(select, key_type))
    kind = {} if key_type is None else {"key_type": key_type_of(key_type)}
    selector = make_selector("KEY_GROUP", 3, key_selector=select, max_parallelism=128, **kind)
    expected = {}
    for row in made.rows():
        expected.setdefault(selector.select(row), []).append(row)
    found = {}
    for channel, part, framed in exchange.split(made):
        again = received(framed)
        assert (again.rows(), again.timestamp_list()) == (part.rows(), part.timestamp_list())
        found[channel] = again.rows()
    assert found == expected
    assert (exchange.batches, exchange.rows) == (len(expected), 500)


def test_every_channel_gets_a_broadcast_batch():
    [(channel, _, framed)] = BatchExchange(ROW, None, is_broadcast=True).split(batch_of(20))
    assert (channel, received(framed).rows()) == (-1, batch_of(20).rows())


def test_a_large_batch_is_several_records():
    found = list(BatchExchange(ROW, None).split(batch_of(MOST_ROWS + 20)))
    assert [channel for channel, _, _ in found] == [0, 0]
    assert [len(received(framed)) for _, _, framed in found] == [MOST_ROWS, 20]


def test_large_rows_are_records_of_a_size_that_a_receiver_takes():
    names = ["x" * 100_000] * 40
    data = pa.RecordBatch.from_arrays(
        [pa.array(range(40)), pa.array(names)], schema=batch_schema(ROW)
    )
    parts = list(BatchExchange(ROW, None).split(ColumnBatch(data, ROW)))
    assert {framed for _, _, framed in parts} == {None}
    assert [row.number for _, part, _ in parts for row in part.rows()] == list(range(40))
    names = ["x" * 10_000] * 200
    data = pa.RecordBatch.from_arrays(
        [pa.array(range(200)), pa.array(names)], schema=batch_schema(ROW)
    )
    parts = list(BatchExchange(ROW, None).split(ColumnBatch(data, ROW)))
    assert len(parts) > 1
    assert all(framed is not None and len(framed) < 1.2 * 2**20 for _, _, framed in parts)


def test_a_few_rows_are_written_one_by_one():
    exchange = BatchExchange(ROW, keys_of(lambda r: r.number))
    [(_, part, framed)] = exchange.split(batch_of(5))
    assert (part.rows(), framed) == (batch_of(5).rows(), None)
    parts = list(exchange.split(batch_of(20)))
    assert {framed for _, _, framed in parts} == {None}
    assert sorted(row.number for _, part, _ in parts for row in part.rows()) == list(range(20))
    assert exchange.batches == 0


def test_records_of_another_type_are_written_one_by_one():
    other = ColumnBatch(batch_of(50).data, Types.TUPLE([Types.LONG(), Types.STRING()]))
    [(_, part, framed)] = BatchExchange(ROW, None).split(other)
    assert (part, framed) == (other, None)


def test_keys_of_another_type_than_declared_are_taken_one_by_one():
    exchange = BatchExchange(ROW, keys_of(lambda r: r.number, Types.INT()))
    [(_, _, framed)] = exchange.split(batch_of(50))
    assert framed is None


def test_types_that_have_batches():
    assert has_batches(ROW)
    assert has_batches(Types.TUPLE([Types.LONG()]))
    assert not has_batches(Types.LONG())
    assert not has_batches(None)
    assert not has_batches(Types.ROW_NAMED(["d"], [Types.BIG_DEC()]))
