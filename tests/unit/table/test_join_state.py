"""Inner joins keep rows as columns, and snapshots have them in blocks of rows of one key group."""

import pickle
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from penstock.columns.groups import Groups
from penstock.columns.record_batches import batch_of_bytes
from penstock.graph.key_groups import key_group
from penstock.network import key_hash
from penstock.table import types
from penstock.taskexecutor.compiled import MAX_TIMESTAMP
from penstock.taskexecutor.operators.relational.joins import column_sides, join, stored_rows
from penstock.taskexecutor.operators.relational.joins.inner_join import keys_of
from penstock.taskexecutor.operators.relational.joins.stored_rows import RowsOfKeys, StoredRows
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

COLUMNS = {"k": types.BigIntType(), "d": types.DoubleType(), "s": TEXT}
BACKENDS = {"hashmap": {}, "rocksdb": {"state.backend.type": "rocksdb"}}


def tables():
    return [HarnessTable.of(name, **COLUMNS) for name in ("t", "u")]


def batches(seed, count=40):
    """Return a table's name and rows for each batch."""
    drawn = random.Random(seed)
    return [
        (
            drawn.choice("tu"),
            [
                (
                    drawn.choice([None, *range(9)]),
                    drawn.choice([0.0, -0.0, 2.5]),
                    drawn.choice("ab"),
                )
                for _ in range(drawn.choice([1, 2, 40]))
            ],
        )
        for _ in range(count)
    ]


def given(query, parts):
    """Process batches, and return the new rows of the result."""
    before = len(query.changes())
    for table, rows in parts:
        query.give(table, rows)
        query.flush()
    return [row for _, row in query.changes()[before:]]


def restarted(sql, runs, **first):
    """Return the rows of a query that runs batches and starts again from its snapshots."""
    found, restored = [], None
    parts = batches(7)
    size = -(-len(parts) // len(runs))
    for number, options in enumerate(runs):
        query = RunningQuery(sql, tables(), restored=restored, **first, **options)
        mine = parts[number * size : (number + 1) * size]
        for start in range(0, len(mine), 2):
            found += given(query, mine[start : start + 2])
            restored = query.harness.snapshot(start + 1)
        query.close()
    return found


@pytest.mark.parametrize("condition", ["t.k = u.k", "t.d = u.d AND t.k < u.k", "t.k < u.k"])
def test_rows_in_blocks_are_restored_in_order(condition):
    sql = f"SELECT * FROM t JOIN u ON {condition}"
    whole = restarted(sql, [{}])
    assert len(whole) > 500
    assert restarted(sql, [{}, {}, {}]) == whole


@pytest.mark.parametrize("other", ["rocksdb", "ttl"])
def test_state_changes_between_blocks_and_rows_of_keys(other):
    ttl = {"settings": {"table.exec.state.ttl": "1 d"}}
    if other == "rocksdb":
        pytest.importorskip("rocksdict")
    between = ttl if other == "ttl" else {"configuration": BACKENDS["rocksdb"]}
    sql = "SELECT * FROM t JOIN u ON t.k = u.k AND t.s = u.s"
    assert restarted(sql, [{}, between, {}]) == restarted(sql, [{}])


def test_only_state_in_memory_is_kept_in_blocks():
    pytest.importorskip("rocksdict")
    rows = {}
    for name, configuration in BACKENDS.items():
        query = RunningQuery(
            "SELECT * FROM t JOIN u USING (k)", tables(), configuration=configuration
        )
        given(
            query, [("t", [(1, 0.0, "a"), (None, 0.0, "a")]), ("u", [(1, 0.0, "b"), (2, 0.0, "b")])]
        )
        rows[name] = query.harness.metrics("Join").get("numRowsInBlocks")
        query.close()
    assert rows == {"hashmap": 3, "rocksdb": None}


def test_blocks_are_bounded(monkeypatch):
    monkeypatch.setattr(column_sides, "ROWS_AT_ONCE", 8)
    monkeypatch.setattr(column_sides, "_MOST_ROWS", 4)
    sql = "SELECT t.s FROM t JOIN u ON t.k = u.k"
    query = RunningQuery(sql, tables())
    given(query, [("t", [(1, 0.0, str(number)) for number in range(50)])])
    restored = query.harness.snapshot(1)
    (context,) = (each for each in query.harness._opened().contexts if each.name == "Join")
    blocks = [block for _, _, block in context.keyed_state.table("left", "value")]
    assert [len(block.rows) for block in blocks] == [8] * 6 + [2]
    query.close()
    query = RunningQuery(sql, tables(), restored=restored)
    assert given(query, [("u", [(1, 0.0, "")])]) == [(str(number),) for number in range(50)]
    query.close()


@pytest.mark.parametrize("column", [0, 1])
def test_a_block_has_rows_of_the_key_group_of_its_key(column):
    """So that each subtask restores its rows at another parallelism."""
    query = RunningQuery(f"SELECT * FROM t JOIN u ON t.{'kd'[column]} = u.{'kd'[column]}", tables())
    for first in (0, 300):
        given(query, [("t", [(k, k / 2, "a") for k in range(first, first + 300)])])
        query.harness.snapshot(first)
    (context,) = (each for each in query.harness._opened().contexts if each.name == "Join")
    schema = pa.schema([("k", pa.int64()), ("d", pa.float64()), ("s", pa.string())])
    hashed = key_hash("STRING")
    found = []
    for _, text, block in context.keyed_state.table("left", "value"):
        batch = batch_of_bytes(pickle.loads(pickle.dumps(block)), schema)
        texts = key_texts(batch, [column])
        assert {key_group(hashed(each), 128) for each in texts} == {key_group(hashed(text), 128)}
        found += texts
    assert len(found) == len(set(found)) == 600
    query.close()


def test_blocks_of_a_key_group_are_merged():
    query = RunningQuery("SELECT * FROM t JOIN u ON t.k = u.k", tables())
    for number in range(64):
        given(query, [("t", [(1, 0.0, str(number))])])
        query.harness.snapshot(number)
    (context,) = (each for each in query.harness._opened().contexts if each.name == "Join")
    assert 1 <= context.keyed_state.num_entries <= 7
    restored = query.harness.snapshot(64)
    query.close()
    query = RunningQuery("SELECT t.s FROM t JOIN u ON t.k = u.k", tables(), restored=restored)
    assert given(query, [("u", [(1, 0.0, "")])]) == [(str(number),) for number in range(64)]
    query.close()


@pytest.mark.parametrize("event", ["time", "rows", "barrier", "idleness", "end"])
def test_batches_wait_for_others_and_watermarks_for_them(monkeypatch, event):
    monkeypatch.setattr(join.JoinOperator, "enough_rows", 5)
    query = RunningQuery("SELECT t.s, u.s FROM t JOIN u ON t.k = u.k", tables())
    harness = query.harness
    query.give("t", [(1, 0.0, "a")])
    query.give("u", [(1, 0.0, "x")])
    query.give("t", [(1, 0.0, "b"), (1, 0.0, "c")])
    for name in "tu":
        harness.process_watermark(name, 5)
    harness.set_processing_time(9)
    output = harness.output("result")
    assert not output.records
    assert not output.watermarks
    if event == "time":
        harness.set_processing_time(10)
    elif event == "rows":
        query.give("u", [(2, 0.0, "y")])
    elif event == "barrier":
        harness.snapshot(1)
    elif event == "idleness":
        for name in "tu":
            harness.process_watermark_status(name, idle=True)
    else:
        query.end()
    (batch,) = harness.values("result")
    assert batch.column(0).to_pylist() == ["a", "b", "c"]
    assert output.watermarks[0] == (MAX_TIMESTAMP if event == "end" else 5)
    assert harness.metrics("Join")["numBatchesByKey"] == 2
    query.close()


@pytest.mark.parametrize("size", [20, 200])
def test_keys_of_several_integers_are_equal_where_all_are(size):
    drawn = random.Random(size)
    values = [tuple(drawn.choice([None, 0, 1, -1]) for _ in range(2)) for _ in range(size)]
    left, right = (list(column) for column in zip(*values, strict=True))
    batches_ = [
        pa.RecordBatch.from_arrays([pa.array(left, kind), pa.array(right, pa.int64())], ["a", "b"])
        for kind in (pa.int64(), pa.int32())
    ]
    for batch in [*batches_, batches_[0].slice(3)]:
        groups, keys = keys_of(batch, (0, 1), has_texts=False)
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        found = {row: keys[code] for row, code in zip(rows, groups.codes, strict=True)}
        assert set(map(type, keys)) == {bytes}
        assert len(set(keys)) == len(keys) == len(found) == len(set(rows))
    assert (
        keys_of(batches_[0], (0, 1), has_texts=False)[1]
        == keys_of(batches_[1], (0, 1), has_texts=False)[1]
    )


def test_numbers_of_rows_are_those_of_lists(monkeypatch):
    monkeypatch.setattr(stored_rows, "_MOST_RUNS", 4)
    drawn = random.Random(3)
    rows, lists, total = RowsOfKeys(), {}, 0
    for _ in range(300):
        keys = drawn.sample(range(12), drawn.randint(1, 6))
        codes = [*range(len(keys)), *(drawn.randrange(len(keys)) for _ in range(5))]
        rows.add(np.array(keys), Groups(np.array(codes), len(keys)), total)
        for number, code in enumerate(codes):
            lists.setdefault(keys[code], []).append(total + number)
        total += len(codes)
        asked = drawn.sample(range(15), 7)
        found, counts = rows.find(np.array(asked))
        assert counts.tolist() == [len(lists.get(key, ())) for key in asked]
        assert found.tolist() == [number for key in asked for number in lists.get(key, ())]
    assert len(rows._rows) <= 2 * total + 64


def test_stored_rows_are_selected_from_merged_batches(monkeypatch):
    monkeypatch.setattr(stored_rows, "_MOST_BYTES", 2_000)
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    stored = StoredRows(schema)
    drawn = random.Random(4)
    for _ in range(400):
        added = range(len(stored), len(stored) + drawn.choice([1, 2]))
        texts = [str(number) if number % 3 else None for number in added]
        stored.add(pa.RecordBatch.from_arrays([pa.array(added), pa.array(texts)], schema=schema))
    assert len(stored._batches) < 60
    for size in (0, 1, 50):
        asked = [drawn.randrange(len(stored)) for _ in range(size)]
        batch = stored.select(np.array(asked, np.int64)).batch()
        assert batch.column(0).to_pylist() == asked
        assert batch.column(1).to_pylist() == [str(n) if n % 3 else None for n in asked]
