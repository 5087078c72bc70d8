"""Whole partitions: of each subtask without keys, of each key otherwise."""

from dataclasses import dataclass

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import AggregateFunction, Order, StreamExecutionEnvironment
from penstock.datastream.functions import MapPartitionFunction
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute
from support.environments import in_process

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("a", 3), ("b", 1), ("a", 1), ("b", 5), ("a", 2)]


@dataclass
class Reading:
    sensor: str
    value: int


class Count(MapPartitionFunction):
    def open(self, runtime_context):
        self.name = "count"

    def map_partition(self, values):
        yield self.name, len(list(values))


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def larger(one, other):
    return one if one[1] >= other[1] else other


def results(stream):
    with stream.execute_and_collect() as collected:
        return list(collected)


@pytest.fixture
def env():
    return in_process()


def partitions(env, *, keyed):
    pairs = env.from_collection(PAIRS, PAIR)
    if keyed:
        pairs = pairs.key_by(lambda pair: pair[0], Types.STRING())
    return pairs.full_window_partition()


@pytest.mark.parametrize(
    ("use", "whole", "by_key"),
    [
        (lambda p: p.map_partition(Count()), [("count", 5)], [("count", 2), ("count", 3)]),
        (
            lambda p: p.map_partition(lambda values: [sum(v[1] for v in values)], Types.INT()),
            [12],
            [6, 6],
        ),
        (lambda p: p.reduce(larger), [("b", 5)], [("a", 3), ("b", 5)]),
        (lambda p: p.aggregate(Mean(), output_type=Types.DOUBLE()), [2.4], [2.0, 3.0]),
    ],
    ids=["map_partition", "function", "reduce", "aggregate"],
)
def test_a_partition_has_one_result(env, use, whole, by_key):
    assert results(use(partitions(env, keyed=False))) == whole
    assert sorted(results(use(partitions(env, keyed=True)))) == by_key


def test_a_partition_is_sorted(env):
    ascending = partitions(env, keyed=False).sort_partition(1)
    assert results(ascending) == [("b", 1), ("a", 1), ("a", 2), ("a", 3), ("b", 5)]
    descending = partitions(env, keyed=False).sort_partition(lambda v: v[1], Order.DESCENDING)
    assert [v[1] for v in results(descending)] == [5, 3, 2, 1, 1]
    of_keys = results(partitions(env, keyed=True).sort_partition(1, Order.DESCENDING))
    assert [v for v in of_keys if v[0] == "a"] == [("a", 3), ("a", 2), ("a", 1)]
    with pytest.raises(InvalidProgramError, match="has no field 2"):
        partitions(env, keyed=False).sort_partition(2)


def test_records_of_a_class_are_sorted_by_the_name_of_a_field(env):
    readings = [Reading("a", 3), Reading("b", 1), Reading("c", 2)]
    stream = env.from_collection(readings).full_window_partition().sort_partition("value")
    assert [reading.sensor for reading in results(stream)] == ["b", "c", "a"]


def test_the_pure_runtime_does_the_same():
    settings = {"execution.target": "local", "penstock.runtime": "pure", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    whole = partitions(env, keyed=False).aggregate(Mean(), output_type=Types.DOUBLE())
    by_key = partitions(env, keyed=True).aggregate(Mean(), output_type=Types.DOUBLE())
    assert sorted(results(whole.union(by_key))) == [2.0, 2.4, 3.0]


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        (
            operators.FullWindowPartition(
                Mean(), function_kind="aggregate", kept_type=Types.PICKLED_BYTE_ARRAY()
            ),
            [2.4],
        ),
        (
            operators.FullWindowPartition(larger, function_kind="reduce", kept_type=PAIR),
            [("b", 5)],
        ),
        (
            operators.FullWindowPartition(Count(), function_kind="map_partition", kept_type=PAIR),
            [("count", 5)],
        ),
    ],
    ids=["aggregate", "reduce", "map_partition"],
)
def test_a_checkpoint_holds_what_a_partition_has(descriptor, expected):
    """Two subtasks become one, which has the records of both."""
    snapshots = []
    for subtask, elements in enumerate((PAIRS[:2], PAIRS[2:])):
        with OneInputStreamOperatorTestHarness(
            descriptor, subtask=subtask, parallelism=2, max_parallelism=8
        ) as harness:
            for element in elements:
                harness.process_element(element)
            snapshots.append(harness.snapshot(1))
            assert harness.values == []
    merged = OneInputStreamOperatorTestHarness(descriptor, max_parallelism=8)
    merged.initialize_state(redistribute(snapshots, 1)[0])
    merged.open()
    merged.end_input()
    assert merged.values == expected
    merged.close()


def test_subtasks_are_the_partitions():
    env = in_process(parallelism=2)
    spread = env.from_collection([*range(10)], Types.INT()).map(lambda v: v, Types.INT())
    counts = spread.full_window_partition().map_partition(lambda values: [len(list(values))])
    assert results(counts) == [5, 5]
