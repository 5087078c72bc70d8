"""Batches reach the receivers of their rows' keys, by columns and row by row alike."""

import itertools
import math
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
from penstock import network
from penstock.columns.key_columns import json_hashes
from penstock.columns.record_batches import batch_of_bytes, selected_rows
from penstock.graph.key_groups import key_group, operator_index
from penstock.table import types
from penstock.table.plan.schema import Field, Schema
from penstock.taskexecutor.compiled import Output
from penstock.taskexecutor.operators.relational.base import ExchangedBatches
from penstock.taskexecutor.operators.relational.batches import arrow_schema
from penstock.taskexecutor.operators.relational.exchange import PartitionOperator
from penstock.taskexecutor.operators.relational.key_texts import (
    LEAST_ROWS,
    key_column,
    key_texts,
    texts_of,
)
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery, settled

GROUPS = 128
MASK = 0xFFFFFFFF


class Gathered(Output):
    def __init__(self):
        self.records = []

    def collect(self, value, timestamp):
        del timestamp
        self.records.append(value)


def exchange(keys, channels):
    """Return an operator that partitions for some receivers, and its counts by name."""
    counts = {}
    leaving = SimpleNamespace(partition=0, partitioner=SimpleNamespace(max_parallelism=GROUPS))
    context = SimpleNamespace(
        config=SimpleNamespace(network_outputs=[leaving]),
        environment=SimpleNamespace(partitions=[SimpleNamespace(num_subpartitions=channels)]),
        metric_group=lambda: SimpleNamespace(gauge=counts.__setitem__),
    )
    operator = PartitionOperator(context, keys)
    gathered = Gathered()
    operator.setup(None, gathered)
    return operator, counts, gathered.records


def batch_of(*columns):
    return pa.RecordBatch.from_arrays(list(columns), [f"c{i}" for i in range(len(columns))])


NUMBERS = pa.array([*range(-50, 50), None], pa.int64())
TEXTS = pa.array([None, *(f"é{i}" for i in range(100))])
FLAGS = pa.array([i % 3 == 0 if i % 5 else None for i in range(101)])
ESCAPED = pa.array(['a"b', "a\\b", "a\nb", "\0", "", None, *"x" * 95])


@pytest.mark.parametrize(
    "columns",
    [
        (NUMBERS,),
        (TEXTS,),
        (NUMBERS.cast(pa.int16()), TEXTS, FLAGS),
        (TEXTS.slice(3),),
        (ESCAPED,),
        (ESCAPED.slice(2), NUMBERS.slice(2)),
        (NUMBERS.cast(pa.timestamp("ms")), NUMBERS.cast(pa.timestamp("us"))),
        (NUMBERS.cast(pa.timestamp("ms", "UTC")), TEXTS),
        (NUMBERS.cast(pa.int32()).cast(pa.date32()),),
        (pc.abs(NUMBERS).cast(pa.time64("us")),),
        (NUMBERS.cast(pa.decimal128(21, 2)),),
    ],
)
def test_keys_in_columns_are_those_of_rows(columns):
    batch = batch_of(*columns)
    keys = range(len(columns))
    expected = texts_of(selected_rows(batch, keys))
    assert key_column(batch, keys).to_pylist() == key_texts(batch, keys) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0.0, -0.0, *[1.5] * LEAST_ROWS]),
        NUMBERS.cast(pa.timestamp("ns")),
        pa.array([1] * (LEAST_ROWS - 1)),
    ],
)
def test_other_keys_are_computed_row_by_row(column):
    batch = batch_of(column)
    assert key_column(batch, (0,)) is None
    assert key_texts(batch, (0,)) == texts_of(selected_rows(batch, (0,)))


def test_numbers_that_are_not_finite_have_keys_of_their_own():
    values = [math.nan, math.inf, -math.inf, None, 0.0]
    for nested in (lambda v: v, lambda v: [v], lambda v: {"x": [(v, 1)]}):
        texts = texts_of([(nested(value),) for value in values])
        assert len(set(texts)) == len(values)
        assert texts[-1] == texts_of([(nested(-0.0),)])[0]


@pytest.mark.parametrize(("column", "in_columns"), [(TEXTS, 1), (FLAGS.cast(pa.float64()), 0)])
def test_each_receiver_gets_one_record_with_its_rows(column, in_columns):
    batch = batch_of(column, pa.array(range(101)))
    operator, counts, records = exchange((0,), 3)
    operator.process(batch, 0)
    assert counts["numBatchesInColumns"]() == in_columns
    hash_of = network.key_hash("STRING")

    def owner(text):
        return operator_index(GROUPS, 3, key_group(hash_of(text), GROUPS))

    received = {}
    for text, data in records:
        part = batch_of_bytes(data, batch.schema)
        owners = {owner(each) for each in key_texts(part, (0,))}
        assert owners == {owner(text)}
        assert owners.isdisjoint(received)
        received[owners.pop()] = part.column(1).to_pylist()
    assert sorted(itertools.chain(*received.values())) == list(range(101))
    assert all(rows == sorted(rows) for rows in received.values())


def test_a_batch_that_was_in_flight_is_divided_among_new_receivers():
    schema = Schema((Field("k", types.BigIntType()), Field("n", types.IntType())))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(40)), pa.array(range(40), pa.int32())],
        schema=arrow_schema(schema, has_kinds=False),
    )
    operator, _, records = exchange((0,), 1)
    operator.process(batch, 0)
    (record,) = records
    receiver = ExchangedBatches()
    receiver.exchanged, receiver.input_schemas = ((0,),), (batch.schema,)

    def rows_of(is_own):
        found = receiver.rows_of_keys(0, record, lambda value: is_own(value[0]))
        return found and (found[0], batch_of_bytes(found[1], batch.schema)["n"].to_pylist())

    odd = {f"[{i}]" for i in range(1, 40, 2)}
    assert rows_of(odd.__contains__) == ("[1]", list(range(1, 40, 2)))
    assert rows_of(lambda text: text not in odd) == ("[0]", list(range(0, 40, 2)))
    assert rows_of(lambda _: False) is None
    assert receiver.rows_of_keys(0, record, lambda _: True) is record
    later = batch.slice(7, 2)
    operator.process(later, 0)
    record = operator.output.records[-1]
    assert record[0] == "[0]"
    assert rows_of(lambda text: text in ("[7]", "[8]")) == ("[7]", [7, 8])


def test_operators_know_the_keys_of_their_exchanges():
    tables = [HarnessTable.of(name, k=TEXT, n=types.IntType()) for name in ("t", "u")]
    query = RunningQuery("SELECT t.k FROM t JOIN u ON t.n = u.n AND t.k = u.k", tables)
    try:
        (join,) = (each for each in query.harness._opened().operators if hasattr(each, "exchanged"))
        assert join.exchanged == join.keys
        assert len(join.exchanged[0]) == 2
    finally:
        query.close()


@pytest.mark.skipif(network.runtime() != "native", reason="a native loop")
@pytest.mark.parametrize(
    "columns",
    [
        (NUMBERS,),
        (pa.array([0, -1, 7, 2**63 - 1, -(2**63), None], pa.int64()),),
        (pa.array(["", "a b", None, "~!'/"]),),
        (NUMBERS.slice(7, 30).cast(pa.int16()), pa.array([f"t{i % 3}" for i in range(40)])[10:]),
    ],
)
def test_keys_of_numbers_and_plain_texts_are_hashed_without_their_texts(columns):
    texts = texts_of(selected_rows(batch_of(*columns), range(len(columns))))
    hash_of = network.key_hash("STRING")
    expected = [hash_of(text) for text in texts]
    assert [hash_ & MASK for hash_ in json_hashes(list(columns))] == [h & MASK for h in expected]
    operator, counts, _ = exchange(range(len(columns)), 2)
    operator.process_columns(batch_of(*columns))
    assert counts["numBatchesHashed"]() == counts["numBatchesInColumns"]() == 1


@pytest.mark.skipif(network.runtime() != "native", reason="a native loop")
@pytest.mark.parametrize("text", ["é", 'a"', "\\", "\n", "\x7f\x80"])
def test_texts_that_json_may_write_otherwise_are_not_hashed(text):
    assert json_hashes([pa.array(["plain", text])]) is None
    assert json_hashes([pa.array([1.5])]) is None


PAIRS = "SELECT t.k, t.n, u.k AS j, u.n AS m FROM t {} JOIN u ON t.k = u.k"
BEST = (
    "SELECT k, n, m FROM (SELECT k, n, m, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY m DESC, n) "
    f"AS r FROM ({PAIRS})) WHERE r = 1"
)


@pytest.mark.parametrize(
    ("sql", "exchanges"),
    [
        (BEST.format("k", ""), 2),
        (BEST.format("j", ""), 2),
        (BEST.format("k", "LEFT"), 2),
        (BEST.format("j", "LEFT"), 3),
        (BEST.format("k", "FULL"), 3),
        (BEST.format("k, n", ""), 3),
        (f"SELECT COUNT(*), k FROM ({PAIRS.format('')}) WHERE n < m GROUP BY k", 2),
        ("SELECT k, COUNT(c) FROM (SELECT k, COUNT(*) AS c FROM t GROUP BY k) GROUP BY k", 1),
        ("SELECT k, COUNT(c) FROM (SELECT UPPER(k) AS k, c FROM (SELECT k, COUNT(*) AS c FROM t "
         "GROUP BY k)) GROUP BY k", 2),
    ],
)  # fmt: skip
def test_rows_stay_in_the_task_that_an_exchange_would_send_them_to(sql, exchanges):
    tables = [HarnessTable.of(name, k=TEXT, n=types.IntType()) for name in ("t", "u")]
    query = RunningQuery(sql, tables)
    try:
        operators = query.harness._opened().operators
        assert sum(isinstance(each, PartitionOperator) for each in operators) == exchanges
    finally:
        query.close()


def test_batches_that_are_not_exchanged_have_the_same_results():
    tables = [HarnessTable.of(name, k=TEXT, n=types.IntType()) for name in ("t", "u")]
    rows = [(f"k{i % 7}", i * i % 31) for i in range(100)]
    query = RunningQuery(BEST.format("k", ""), tables)
    try:
        for start in range(0, 100, 20):
            query.give("t", rows[start : start + 20])
            query.give("u", rows[start : start + 20])
        query.end()
        (rank,) = (
            each
            for each in query.harness._opened().operators
            if getattr(each, "batches_not_exchanged", 0)
        )
        found = settled(query.changes())
        assert rank.batches_not_exchanged == rank.counters.batches > 0
    finally:
        query.close()
    keys = {k for k, _ in rows}
    numbers = {key: [n for k, n in rows if k == key] for key in keys}
    assert found == {(key, min(numbers[key]), max(numbers[key])): 1 for key in keys}
