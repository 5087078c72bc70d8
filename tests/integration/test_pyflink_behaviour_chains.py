"""Functions of a chain see values of a declared type as in PyFlink 2.3.

Goal: values stay unchanged where PyFlink runs functions in one interpreter, and have the form of
their type where PyFlink serialises them between two. Method: a row whose fields are in another
order than declared, and what the next function finds in it; two functions that differ only in their
type.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from penstock.common import Row, Types
from penstock.datastream import CoProcessFunction, DataStream, ProcessFunction
from penstock.datastream.functions import RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from support.environments import in_process

MADE, DECLARED = ["x", 1], [1, "x"]


def fields_seen(**options: str) -> DataStream[Any]:
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    numbers = in_process(**options).from_collection([1], Types.INT())
    return numbers.map(lambda v: Row(b="x", a=v), kind).map(list)


class Hand(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


@pytest.mark.parametrize(
    ("collected", "seen"),
    [
        (lambda stream: stream, [MADE]),
        (lambda stream: stream.process(Hand()), [MADE]),
        (lambda stream: stream.union(stream), [DECLARED, DECLARED]),
        (lambda stream: stream.union(stream).map(lambda v: v), [MADE, MADE]),
        (lambda stream: stream.rebalance(), [DECLARED]),
        (lambda stream: stream.key_by(str), [DECLARED]),
        (lambda stream: stream.partition_custom(lambda key, n: 0, str), [MADE]),
    ],
    ids=["map", "process", "union", "map of a union", "rebalance", "key_by", "partition_custom"],
)
def test_the_collected_stream_decides_the_form_in_a_chain(
    collected: Callable[[DataStream[Any]], DataStream[Any]], seen: list[Any]
) -> None:
    with collected(fields_seen()).execute_and_collect() as results:
        assert list(results) == seen


def test_functions_that_are_not_chained_see_the_declared_form() -> None:
    stream = fields_seen(**{"python.operator-chaining.enabled": "false"})
    with stream.execute_and_collect() as results:
        assert list(results) == [DECLARED]


class CountBoth(CoProcessFunction):
    """Counts the elements of a key, of both streams."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield "one", value, self.count.value()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield "two", value, self.count.value()


def test_a_co_process_function_has_the_state_of_its_keys() -> None:
    """As in Flink and PyFlink, it need not be a KeyedCoProcessFunction."""
    env = in_process()
    first = env.from_collection([1, 2, 1], Types.INT()).key_by(lambda v: v)
    second = env.from_collection([1], Types.INT()).key_by(lambda v: v)
    with first.connect(second).process(CountBoth()).execute_and_collect() as results:
        found = list(results)
    assert sorted(count for _, value, count in found if value == 1) == [1, 2, 3]
    assert [count for _, value, count in found if value == 2] == [1]
