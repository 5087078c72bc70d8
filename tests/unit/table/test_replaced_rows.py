"""Deduplication and top-N by columns emit the same changes as row by row, in their order."""

import datetime
import random
from decimal import Decimal

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")
pytest.importorskip("hypothesis")

import numpy
import pyarrow
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from penstock.columns import first_rows, order_ranks
from penstock.columns.change_pairs import differing
from penstock.columns.record_batches import LEAST_ROWS
from penstock.table import types
from unit.table.planning import PROCTIME, ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

START = datetime.datetime(2024, 1, 1)
VALUES = (
    ["a", "b", 'q"', None],
    [True, None],
    [None, -1, 0, 2**31 - 1],
    [None, Decimal("0.10"), Decimal("-2.50")],
    [None, "", "x", "é", "\U0001f600"],
    [None, datetime.date(1900, 1, 1), datetime.date(2024, 2, 29)],
    [None, 0.0, -0.0, float("nan"), 1.5],
    [START + datetime.timedelta(milliseconds=ms) for ms in range(7)],
    [None],
    [None, -(2**63), 2**63 - 1, 0, 5],
)
NAMES = {"ts": "Deduplicate", "p": "Deduplicate"}
ORDERS = [
    "ts",
    "ts DESC",
    "p",
    "p DESC",
    "n DESC, d, s DESC NULLS LAST, ts DESC",
    "b NULLS FIRST, e NULLS LAST, s",
    "d DESC, e DESC NULLS FIRST",
    "n, w DESC, s",
]


def table():
    return HarnessTable.of(
        "t",
        k=TEXT,
        b=types.BooleanType(),
        n=types.IntType(),
        d=types.DecimalType(10, 2),
        s=TEXT,
        e=types.DateType(),
        f=types.DoubleType(),
        ts=ROWTIME,
        p=PROCTIME,
        w=types.BigIntType(),
    )


def query(order, *, last=1, key="k, b", columns="k, b, n, d, s, e, f, ts, w", **parts):
    sql = (
        f"SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order}) "
        f"AS place FROM t) WHERE place <= {last}"
    )
    return RunningQuery(sql, [table()], **parts)


def in_columns(running, order):
    name = NAMES.get(order.split()[0].rstrip(","), "Rank")
    return running.harness.metrics(name).get("numBatchesInColumns", 0)


def changes(running):
    return list(map(repr, running.changes()))


def millisecond(number):
    return int(START.replace(tzinfo=datetime.UTC).timestamp() * 1000) + number


def run(order, batches, *, size, ttl="0 ms", last=1):
    """Return the changes after each batch, given in pieces, and the number computed by columns."""
    running = query(order, last=last, settings={"table.exec.state.ttl": ttl})
    for number, rows in enumerate(batches):
        for start in range(0, len(rows), size):
            running.give("t", rows[start : start + size])
            running.flush()
        running.harness.process_watermark("t", millisecond(number + 1))
    running.end()
    found = changes(running), in_columns(running, order)
    running.close()
    return found


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32), last=st.integers(1, 4), ttl=st.sampled_from(["0 ms", "1 h"]))
def test_each_change_is_that_of_its_row(order, seed, last, ttl):
    last = 1 if order.split()[0] in NAMES else last
    drawn = random.Random(seed)
    batches = [[tuple(map(drawn.choice, VALUES)) for _ in range(LEAST_ROWS + 8)] for _ in range(2)]
    found, counted = run(order, batches, size=LEAST_ROWS + 8, ttl=ttl, last=last)
    assert counted == len(batches)
    by_row = ttl if order.split()[0] in NAMES else "1 h"
    assert (found, 0) == run(order, batches, size=1, ttl=by_row, last=last)
    assert found == run(order, batches, size=3, ttl=ttl, last=last)[0]


def rows(*numbers):
    return [
        (
            "a" if n % 3 else "b",
            None,
            n,
            None,
            "s",
            None,
            None,
            START + datetime.timedelta(0, n),
            None,
            n,
        )
        for n in numbers
    ]


@pytest.mark.parametrize(
    ("order", "last"), [*((order, 1) for order in ORDERS), (ORDERS[4], 3), (ORDERS[5], 3)]
)
def test_state_of_rows_is_that_of_columns(order, last):
    """Either mode reads the state that the other one wrote."""
    found = []
    for sizes in ((1, 40), (40, 1), (1, 1)):
        state = None
        emitted = []
        for part, size in enumerate(sizes):
            given_rows = rows(*range(part * 20 + 40, part * 20, -1))
            # With a time to live, a top-N of small batches is computed by rows.
            ttl = {"table.exec.state.ttl": "0 ms" if size == 40 else "1 h"}
            running = query(order, last=last, restored=state, settings=ttl)
            for start in range(0, len(given_rows), size):
                running.give("t", given_rows[start : start + size])
                running.flush()
            assert in_columns(running, order) == (size == 40)
            state = running.harness.snapshot(1)
            if part:
                running.end()
            emitted.append(changes(running))
            running.close()
        found.append(emitted)
    assert found[0] == found[1] == found[2]


def test_small_batches_are_left_to_rows():
    running = query("ts DESC")
    running.give("t", rows(*range(LEAST_ROWS - 1)))
    running.flush()
    running.give("t", rows(*range(LEAST_ROWS)))
    running.flush()
    assert in_columns(running, "ts DESC") == 1
    running.close()


@pytest.mark.parametrize("order", ["ts DESC", "p", "n"])
def test_batches_wait_for_others_and_watermarks_for_them(order):
    running = query(order)
    output = running.harness.output("result")
    running.give("t", rows(*range(40)))
    running.harness.process_watermark("t", 5)
    running.give("t", rows(*range(40, 80)))
    assert not output.records
    assert not output.watermarks
    running.harness.set_processing_time(10)
    assert len(output.records) == 1
    assert output.watermarks == [5]
    assert in_columns(running, order) == 1
    running.close()


def test_watermarks_emit_first_rows_without_a_wait():
    running = query("ts")
    output = running.harness.output("result")
    running.give("t", rows(*range(40)))
    running.harness.process_watermark("t", millisecond(1))
    assert len(output.records) == 1
    assert output.watermarks == [millisecond(1)]
    running.close()


def test_keys_and_orders_that_kernels_treat_otherwise_are_left_to_rows():
    for order, parts in (("ts", {"key": "f"}), ("f DESC", {})):
        running = query(order, **parts)
        running.give("t", rows(*range(40)))
        running.flush()
        running.end()
        assert in_columns(running, order) == 0
        assert running.changes()
        running.close()


@pytest.mark.parametrize(
    ("order", "limit"), [("ts DESC", (first_rows, "MOST")), ("n", (order_ranks, "MOST_RANKED"))]
)
def test_batches_that_are_too_large_for_kernels_are_left_to_rows(monkeypatch, order, limit):
    monkeypatch.setattr(*limit, 4)
    running = query(order, settings={"table.exec.state.ttl": "1 h"})
    running.give("t", rows(*range(40)))
    running.flush()
    assert in_columns(running, order) == 0
    assert running.changes()
    running.close()


def test_batches_with_many_kept_rows_are_left_to_rows():
    running = query("n", last=500)
    for part in range(7):
        running.give("t", rows(*range(part * 40, part * 40 + 40)))
        running.flush()
    assert in_columns(running, "n") == 5
    assert len(running.changes()) == 280
    running.close()


def test_null_columns_never_differ():
    places = numpy.array([0, 1])
    assert differing([pyarrow.nulls(2)], places, places[::-1]).tolist() == [False, False]
    assert differing([pyarrow.array([1, None])], places, places[::-1]).tolist() == [True, True]
