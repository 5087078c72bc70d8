"""Named aggregates in jobs: by columns and by rows, in both execution modes, and their counters.

Goal: the same program has the same results with `pipeline.columns` on and off, and batches of
columns reach the aggregates and leave them.  Method: jobs in this process over a table; counts of
`explain(analyze=True)` are asserted, so that a dead path fails a test.
"""

import re

import pyarrow as pa
import pytest
from penstock import aggregates as agg
from penstock.common import Row, Types
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.functions import AggregateFunction
from penstock.errors import WrongArgumentError
from penstock.expressions import as_tuple, field
from penstock.network import runtime
from support.environments import in_process

pytestmark = pytest.mark.process

NATIVE = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")
COUNT = 20_000
TABLE = pa.table(
    {
        "auction": [n * 7919 % 100 for n in range(COUNT)],
        "price": [n * 7919 % 20_011 for n in range(COUNT)],
        "channel": [f"channel {n % 13}" for n in range(COUNT)],
    }
)
AGGREGATES = {
    "bids": agg.count(),
    "cheap": agg.count(where=field("price") < 100),
    "total": agg.sum("price"),
    "mean": agg.mean("price"),
    "best": agg.max("price"),
    "channel": agg.max_by("channel", "price"),
    "channels": agg.count_distinct("channel"),
    "about": agg.count_distinct("channel", approximate=True),
}


def aggregated(env, **options):
    return env.from_arrow(TABLE).key_by(field("auction")).aggregate(AGGREGATES, **options)


def results(emit="batch", parallelism=1, build=aggregated, **options):
    with build(in_process(parallelism, **options), emit=emit).execute_and_collect() as found:
        return list(found)


def expected():
    by_auction = {}
    for auction, price, channel in zip(*TABLE.to_pydict().values(), strict=True):
        by_auction.setdefault(auction, []).append((price, channel))
    found = {}
    for auction, bids in by_auction.items():
        prices = [price for price, _ in bids]
        found[auction] = Row(
            auction=auction,
            bids=len(bids),
            cheap=sum(price < 100 for price in prices),
            total=sum(prices),
            mean=sum(prices) / len(prices),
            best=max(prices),
            channel=max(bids, key=lambda bid: bid[0])[1],
            channels=len({channel for _, channel in bids}),
            about=len({channel for _, channel in bids}),
        )
    return found


def last_rows(rows):
    return {row.auction: row for row in rows}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("columns", ["auto", "off"])
@pytest.mark.parametrize("emit", ["batch", "running"])
def test_the_last_rows_are_those_of_a_loop(emit, columns, parallelism):
    found = results(emit, parallelism, pipeline_columns=columns)
    assert last_rows(found) == expected()
    if emit == "running":
        assert len(found) == COUNT


def test_running_rows_are_the_same_by_columns_and_by_rows():
    assert results("running") == results("running", pipeline_columns="off")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_bounded_input_in_batch_mode_emits_one_row_for_each_key(parallelism):
    found = results("running", parallelism, **{"execution_runtime-mode": "BATCH"})
    assert len(found) == 100
    assert last_rows(found) == expected()


def test_a_key_of_several_fields_whose_results_no_column_has():
    def build(env, **options):
        keyed = env.from_arrow(TABLE).key_by(as_tuple(field("auction") % 5, field("channel")))
        return keyed.aggregate({"all": agg.collect("price")}, key_names=["five", "of"], **options)

    found = {(row.five, row.of): row.all for row in results(build=build)}
    assert found == {
        (row.five, row.of): row.all for row in results(build=build, pipeline_columns="off")
    }
    assert sum(map(len, found.values())) == COUNT


class Spread(AggregateFunction):
    """Computes the channels of bids, and the difference of their lowest and highest price."""

    def open(self, runtime_context):
        self.is_open = True

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        assert self.is_open
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        if not accumulator:
            return 0
        prices = [price for price, _ in accumulator]
        return max(prices) - min(prices) + len({channel for _, channel in accumulator})

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def spread(env, **options):
    of = agg.user_defined(
        Spread(), "price", "channel", output_type=Types.LONG(), where=field("price") >= 50
    )
    keyed = env.from_arrow(TABLE).key_by(field("auction"))
    return keyed.aggregate({"bids": agg.count(), "spread": of}, **options)


@pytest.mark.parametrize("columns", ["auto", "off"])
@pytest.mark.parametrize("emit", ["batch", "running"])
def test_functions_of_users_are_called_with_the_values_of_each_key(emit, columns):
    found = last_rows(results(emit, build=spread, pipeline_columns=columns))
    by_auction = {}
    for auction, price, channel in zip(*TABLE.to_pydict().values(), strict=True):
        if price >= 50:
            by_auction.setdefault(auction, []).append((price, channel))
    assert {key: row.spread for key, row in found.items()} == {
        key: Spread().get_result(values) for key, values in by_auction.items()
    }


def test_a_user_defined_aggregate_needs_a_function():
    with pytest.raises(WrongArgumentError, match="'spread' takes a AggregateFunction"):
        in_process().from_arrow(TABLE).key_by(field("auction")).aggregate(
            {"spread": agg.user_defined(Spread, "price", output_type=Types.LONG())}
        )


@NATIVE
def test_batches_are_grouped_and_counted():
    env = in_process(2)
    aggregated(env).sink_to(DiscardingSink())
    plan = env.explain(analyze=True)
    assert "records received: batches of columns" in plan
    assert "arguments: evaluated" in plan
    assert "accumulators: in keyed state, as count_distinct changes its accumulator" in plan
    assert "with state in columns" not in plan
    line = next(line for line in plan.splitlines() if line.strip().startswith("Aggregate: "))
    counts = {
        what: int(number.replace(",", ""))
        for number, what in re.findall(r"(\d[\d,]*) ([a-z ]+?)(?:, |$)", line)
    }
    assert counts["batches in columns"] >= 2
    assert counts.get("batches given up", 0) == 0
    assert COUNT <= counts["evaluated"] <= 2 * COUNT


COMBINED = {
    "bids": agg.count(),
    "total": agg.sum("price"),
    "mean": agg.mean("price"),
    "best": agg.max("price"),
    "channel": agg.max_by("channel", "price"),
}


def combined(env, **options):
    return (
        env.from_arrow(TABLE)
        .key_by(field("auction") % 5)
        .aggregate(COMBINED, key_names=["auction"], **options)
    )


def test_records_that_are_combined_before_the_exchange_give_the_same_results():
    found = last_rows(results(build=combined, parallelism=2))
    assert found == last_rows(results(build=combined, parallelism=2, pipeline_columns="off"))
    assert sum(row.total for row in found.values()) == sum(TABLE["price"].to_pylist())


@NATIVE
def test_combined_records_are_counted():
    env = in_process(2)
    combined(env).sink_to(DiscardingSink())
    plan = env.explain(analyze=True)
    assert "records received: batches of columns, combined by key" in plan
    (number,) = re.findall(r"(\d[\d,]*) combined before they were sent", plan)
    assert COUNT // 2 < int(number.replace(",", "")) <= COUNT
    assert "accumulators: columns, written to keyed state before snapshots" in plan
    (number,) = re.findall(r"(\d[\d,]*) batches with state in columns", plan)
    assert int(number) >= 2
    env = in_process(2)
    combined(env, emit="running").sink_to(DiscardingSink())
    plan = env.explain(analyze=True)
    assert "not combined, as each emits a row" in plan
    assert "combined before" not in plan
    (number,) = re.findall(r"(\d[\d,]*) batches with state in columns", plan)
    assert int(number) >= 2
    env = in_process(2, state_backend_type="rocksdb")
    combined(env).sink_to(DiscardingSink())
    assert "accumulators: in keyed state, as that is in a database" in env.explain()


@NATIVE
def test_keys_that_no_kernel_groups_are_named():
    env = in_process(1)
    keyed = env.from_arrow(TABLE).key_by(field("price") / 2, Types.DOUBLE())
    keyed.aggregate({"bids": agg.count()}).sink_to(DiscardingSink())
    assert "one by one, as no kernel groups by the field 'key' of the key" in env.explain()
