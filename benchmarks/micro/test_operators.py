"""Operators driven element by element in their harness: the price of one, by kind.

Each round handles ``PENSTOCK_BENCH_RECORDS`` elements (1,000 if unset).  The columnar limits beside
them process a whole array at once.
"""

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from penstock.common import Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph import operators
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
)

RECORDS = int(os.environ.get("PENSTOCK_BENCH_RECORDS", "1000"))
PAIRS = [(number % 100, number) for number in range(RECORDS)]


class CountInState(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)


def feed(harness, values):
    process = harness.process_element
    for value in values:
        process(value, 0)
    harness.output.clear()


@pytest.mark.parametrize(
    "descriptor",
    [
        pytest.param(operators.Map(lambda pair: pair), id="map"),
        pytest.param(operators.Filter(lambda pair: True), id="filter"),
        pytest.param(operators.FlatMap(lambda pair: [pair]), id="flat_map"),
    ],
)
def test_stateless(benchmark, descriptor):
    with OneInputStreamOperatorTestHarness(descriptor) as harness:
        benchmark(feed, harness, PAIRS)


@pytest.mark.parametrize(
    "descriptor",
    [
        pytest.param(operators.Reduce(lambda a, b: (a[0], a[1] + b[1])), id="reduce"),
        pytest.param(operators.AggregateField(position=1, operation="sum"), id="sum"),
        pytest.param(operators.KeyedProcess(CountInState()), id="value_state"),
    ],
)
def test_keyed(benchmark, descriptor):
    with KeyedOneInputStreamOperatorTestHarness(descriptor, lambda pair: pair[0]) as harness:
        benchmark(feed, harness, PAIRS)


def test_limit_numpy_keyed_sum(benchmark):
    """Measure the keyed sum on arrays, final sums only."""
    keys, values = np.array(PAIRS).T
    benchmark(np.bincount, keys, weights=values)


def test_limit_pyarrow_filter(benchmark):
    numbers = pa.array(range(RECORDS))
    benchmark(lambda: pc.filter(numbers, pc.equal(pc.bit_wise_and(numbers, 1), 0)))
