"""The operator that is blamed for an exception: the one whose function raised it."""

from types import SimpleNamespace

import pytest
from penstock.connectors.writer_sink import PythonSink, SinkWriter
from penstock.datastream.functions import MapFunction, ProcessFunction
from penstock.graph import operators
from penstock.graph.job_graph import ChainConfig, ChainedOutput, OperatorConfig
from penstock.taskexecutor.task.stream_task import StreamTask
from penstock.taskexecutor.task.task_failure import OPERATOR_ATTRIBUTE

ENVIRONMENT = SimpleNamespace(
    task_name="task",
    job_id=b"",
    temp_directory=None,
    subtask=0,
    parallelism=1,
    max_parallelism=128,
    attempt_number=0,
    configuration={},
    restored=None,
    report_checkpoint=None,
    partitions=[],
    gates=[],
    network=None,
    metrics={},
    operator_metrics={},
)


class Broken(Exception):
    """The exception that the functions below raise."""


def broken(*_):
    raise Broken


def broken_between(value):
    yield value
    raise Broken


class BrokenAtTheEnd(MapFunction):
    def map(self, value):
        return value

    def close(self):
        raise Broken


class BrokenProcess(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        raise Broken


class WriterOf(PythonSink):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def create_writer(self, context):
        del context
        return FunctionWriter(self.write)


class FunctionWriter(SinkWriter):
    def __init__(self, write):
        self.write_element = write

    def write(self, element, context):
        self.write_element(element)

    def flush(self, end_of_input):
        pass


class Kept(MapFunction):
    def map(self, value):
        return value


SINK = operators.FunctionSink(str)
NUMBERS = operators.NumberSequenceSource(start=1, end=2)

#: Operators of a tree: descriptors with the positions of the operators that they feed.
TREES = {
    "the second of two builtin functions": (
        [(NUMBERS, [1]), (operators.Map(chr), [2]), (operators.Map(float), [3]), (SINK, [])],
        2,
    ),
    "a generator that the operator behind it reads": (
        [(NUMBERS, [1]), (operators.FlatMap(broken_between), [2]), (operators.Map(Kept()), [])],
        1,
    ),
    "a generator of a process function": (
        [(NUMBERS, [1]), (operators.Process(BrokenProcess()), [2]), (operators.Map(Kept()), [])],
        1,
    ),
    "a sink behind an operator in Python": (
        [(NUMBERS, [1]), (operators.Process(BrokenProcess()), [2]), (operators.Map(broken), [])],
        2,
    ),
    "the writer of a sink": (
        [(NUMBERS, [1]), (operators.Map(float), [2]), (operators.SinkWriter(WriterOf(broken)), [])],
        2,
    ),
    "the writer of a sink that reads a function": (
        [
            (NUMBERS, [1]),
            (operators.Map(Kept().map), [2]),
            (operators.SinkWriter(WriterOf(broken)), []),
        ],
        2,
    ),
    "a function that the writer of a sink reads": (
        [(NUMBERS, [1]), (operators.Map(broken), [2]), (operators.SinkWriter(WriterOf(str)), [])],
        1,
    ),
    "the first of two branches": (
        [(NUMBERS, [1, 2]), (operators.FunctionSink(broken), []), (SINK, [])],
        1,
    ),
    "the second of two branches": (
        [(NUMBERS, [1, 2]), (SINK, []), (operators.FunctionSink(broken), [])],
        2,
    ),
    "closing the middle": (
        [(NUMBERS, [1]), (operators.Map(BrokenAtTheEnd()), [2]), (operators.Map(Kept()), [])],
        1,
    ),
}


@pytest.mark.parametrize("kind", TREES)
def test_an_exception_is_blamed_on_the_operator_that_it_came_from(kind):
    tree, culprit = TREES[kind]
    chain = ChainConfig(
        tuple(
            OperatorConfig(
                id=bytes([i]) * 16,
                uid=None,
                name=f"op{i}",
                descriptor=descriptor,
                chained_outputs=tuple(ChainedOutput(target) for target in targets),
            )
            for i, (descriptor, targets) in enumerate(tree)
        )
    )
    task = StreamTask(chain, ENVIRONMENT)
    task.restore()
    with pytest.raises((Broken, ValueError)) as caught:
        task.invoke()
    assert getattr(caught.value, OPERATOR_ATTRIBUTE) == f"op{culprit}"
