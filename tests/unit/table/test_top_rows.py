"""A top-N keeps its rows as columns, and snapshots have them in blocks of one key group."""

import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock import network
from penstock.columns.record_batches import batch_of_bytes
from penstock.graph.key_groups import key_group
from penstock.table import types
from penstock.taskexecutor.operators.relational.batches import arrow_schema
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ranks import top_rows
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

COLUMNS = {"k": TEXT, "b": types.BooleanType(), "n": types.IntType(), "s": TEXT}
ROCKSDB = {"configuration": {"state.backend.type": "rocksdb"}}
TTL = {"settings": {"table.exec.state.ttl": "1 d"}}


def query(last, **options):
    sql = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, b ORDER BY n, s DESC) AS r "
        f"FROM t) WHERE r <= {last}"
    )
    columns = "k, b, n, s"
    return RunningQuery(sql.replace("*", columns, 1), [HarnessTable.of("t", **COLUMNS)], **options)


def batches(count=24):
    drawn = random.Random(count)
    return [
        [
            (
                drawn.choice(["a", 'b"', None, *map(str, range(20))]),
                drawn.choice([True, False, None]),
                drawn.choice([None, *range(-9, 9)]),
                drawn.choice([None, "", "x", "é"]),
            )
            for _ in range(drawn.choice([1, 40, 90]))
        ]
        for _ in range(count)
    ]


def restarted(last, runs):
    """Return the changes of a query that runs batches and starts again from its snapshots."""
    found, restored = [], None
    parts = batches()
    size = len(parts) // len(runs)
    for number, options in enumerate(runs):
        running = query(last, restored=restored, **options)
        for start in range(number * size, (number + 1) * size):
            running.give("t", parts[start])
            running.flush()
            restored = running.harness.snapshot(start + 1)
        found += running.changes()
        running.close()
    return found


@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("other", ["columns", "rocksdb", "ttl"])
def test_state_changes_between_blocks_and_rows_of_keys(last, other):
    if other == "rocksdb":
        pytest.importorskip("rocksdict")
    between = {"columns": {}, "rocksdb": ROCKSDB, "ttl": TTL}[other]
    whole = restarted(last, [{}])
    assert len(whole) > 200
    assert restarted(last, [{}, between, {}]) == whole
    assert restarted(last, [between]) == whole


def test_only_state_in_memory_without_a_time_to_live_is_kept_in_columns():
    pytest.importorskip("rocksdict")
    kept = []
    for last, options in ((2, {}), (2, ROCKSDB), (2, TTL), (top_rows.MOST_ROWS + 1, {})):
        running = query(last, **options)
        running.give("t", [("a", True, n, "") for n in range(40)])
        running.flush()
        kept.append(running.harness.metrics("Rank").get("numRowsInTops"))
        running.close()
    assert kept == [2, None, None, None]


def test_blocks_are_bounded(monkeypatch):
    whole = restarted(3, [{}])
    monkeypatch.setattr(top_rows, "ROWS_AT_ONCE", 8)
    assert restarted(3, [{}, {}, {}]) == whole
    running = query(3)
    running.give("t", [("a", n % 20 == 0, n, "") for n in range(40)])
    running.flush()
    running.give("t", [("b", n % 20 == 0, n, "") for n in range(40)])
    running.flush()
    (context,) = (each for each in running.harness._opened().contexts if each.name == "Rank")
    blocks = [len(block.rows) for _, _, block in context.keyed_state.table("rows", "value")]
    assert sum(blocks) == 10
    assert max(blocks) <= 8
    running.close()


def test_each_block_has_all_rows_of_one_key_group():
    """Tasks of another parallelism restore whole key groups."""
    running = query(2)
    running.give("t", [(str(n % 60), n % 2 == 0, n, "") for n in range(300)])
    running.flush()
    (context,) = (each for each in running.harness._opened().contexts if each.name == "Rank")
    most = context.environment.max_parallelism
    hash_of = network.key_hash("STRING")
    found = {}
    for text, block in context.keyed_state.table("rows", "value").map(0).items():
        kind, (data,) = block.__reduce__()
        rows = batch_of_bytes(kind(data), arrow_schema(running.schema, has_kinds=False))
        (group,) = {key_group(hash_of(key), most) for key in key_texts(rows, (0, 1))}
        assert group == key_group(hash_of(text), most)
        found[group] = rows.num_rows
    assert len(found) > 20
    assert sum(found.values()) == 120
    running.close()


def test_replaced_rows_are_dropped(monkeypatch):
    monkeypatch.setattr(top_rows, "_LEAST_REPLACED", 0)
    sizes = []
    add = top_rows.StoredRows.add
    monkeypatch.setattr(
        top_rows.StoredRows,
        "add",
        lambda stored, rows: (add(stored, rows), sizes.append(len(stored))),
    )
    running = query(1)
    for n in range(100, 0, -1):
        running.give("t", [(k, True, n, str(n)) for k in "abc"])
        running.flush()
    assert len(running.changes()) == 3 + 99 * 6
    assert running.changes()[-1] == (2, ("c", True, 1, "1"))
    assert max(sizes) == 9
    running.close()
