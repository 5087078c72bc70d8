"""Joins and top-N number keys of integers by a native table: as a dictionary does, and as often.

Method: queries give the same changes with the dictionary of the pure runtime; the table itself is
compared with one, over keys that repeat within a batch and between batches, and at each growth.
"""

import random
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import numpy as np
from penstock import network
from penstock.table import types
from penstock.taskexecutor.operators.relational.joins import key_numbers
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

native_only = pytest.mark.skipif(network.runtime() != "native", reason="a native table")
NUMBERS = (None, 0, 1, -1, 7)
COLUMNS = {"a": types.BigIntType(), "b": types.IntType(), "s": TEXT}
JOINS = {
    "t.a = u.a": True,
    "t.a = u.b": True,  # of different widths
    "t.a = u.a AND t.b = u.b": True,
    "t.a = u.b AND t.a = u.a": True,  # a column twice
    "t.s = u.s": False,
    "t.a = u.a AND t.s = u.s": False,
    "t.a < u.a": False,
}
TOP = (
    "SELECT a, b, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY s DESC, b, a) AS r "
    "FROM t) WHERE r <= 2"
)
TOPS = {TOP.format("a, b"): True, TOP.format("a"): True, TOP.format("s"): False}


def rows(drawn, count):
    return [
        (drawn.choice(NUMBERS), drawn.choice(NUMBERS), drawn.choice("ab")) for _ in range(count)
    ]


def changes(sql, names):
    """Return the changes of a query that starts again in the middle, and two counters of batches.

    They count the batches with numbered keys, and all with keys, until the query starts again.
    """
    drawn = random.Random(5)
    found, restored, counts = [], None, []
    for _ in range(2):
        query = RunningQuery(
            sql, [HarnessTable.of(name, **COLUMNS) for name in names], restored=restored
        )
        for name, size in [(name, size) for size in (1, 3, 40, 64) for name in names]:
            query.give(name, rows(drawn, size))
            query.flush()
        restored = query.harness.snapshot(1)
        found.append(query.changes())
        metrics = query.harness.metrics("Join" if "JOIN" in sql else "Rank")
        counts.append((metrics["numBatchesNumbered"], metrics.get("numBatchesByKey", 4)))
        query.close()
    return found, *counts[0]


@native_only
@pytest.mark.parametrize(
    ("sql", "names", "is_numbered"),
    [
        *((f"SELECT * FROM t JOIN u ON {each}", "tu", is_) for each, is_ in JOINS.items()),
        *((sql, "t", is_) for sql, is_ in TOPS.items()),
    ],
)
def test_queries_have_the_same_changes_with_a_dictionary(monkeypatch, sql, names, is_numbered):
    by_table, numbered, batches = changes(sql, names)
    assert batches >= 4
    assert numbered == (batches if is_numbered else 0)
    assert sum(map(len, by_table)) > 20
    monkeypatch.setattr(key_numbers, "network", SimpleNamespace(runtime=lambda: "pure"))
    assert changes(sql, names) == (by_table, 0, batches)


@native_only
@pytest.mark.parametrize("width", [1, 2, 3])
def test_numbers_are_those_of_a_dictionary(width):
    from penstock._native.keys.key_numbers import KeyNumbers

    drawn = np.random.default_rng(width)
    numbers, expected = KeyNumbers(width), {}
    edges = np.array([0, 1, -1, 2**32, -(2**63), 2**63 - 1])
    for most in (1, 4, 50, 3000, 50):
        keys = drawn.integers(-most, most, (drawn.integers(200, 400), width))
        keys[::5] = edges[drawn.integers(0, len(edges), keys[::5].shape)]
        codes, found = np.empty((2, len(keys)), np.int64)
        count = numbers.number(keys, codes, found)
        of_rows = [expected.setdefault(tuple(key), len(expected)) for key in keys.tolist()]
        # Distinct keys are in the order of their first rows.
        assert found[:count].tolist() == list(dict.fromkeys(of_rows))
        assert found[:count][codes].tolist() == of_rows
        assert len(numbers) == len(expected)
    assert len(expected) > 256


@native_only
def test_wrong_lengths_are_refused():
    from penstock._native.keys.key_numbers import KeyNumbers

    with pytest.raises(ValueError, match="keys of 0 integers"):
        KeyNumbers(0)
    numbers = KeyNumbers(2)
    for shape, codes, found in (((3, 1), 3, 3), ((3, 2), 2, 3), ((3, 2), 3, 4)):
        with pytest.raises(ValueError, match="3 keys of"):
            numbers.number(
                np.zeros(shape, np.int64), np.zeros(codes, np.int64), np.zeros(found, np.int64)
            )
    assert len(numbers) == 0
