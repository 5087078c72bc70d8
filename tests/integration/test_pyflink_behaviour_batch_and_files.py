"""Keyed streams in BATCH mode, limits and lines in files, as in PyFlink 2.3."""

from pathlib import Path
from typing import Any

import pytest
from penstock.common import Configuration, Encoder, Row, Types
from penstock.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import InvalidProgramError


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    made = StreamExecutionEnvironment.get_execution_environment(configuration)
    made.set_parallelism(1)
    return made


class Count(MapFunction):
    """Counts the elements of the key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value: tuple[str, int]) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return [*value, self.count.value()]


def test_batch_maps_a_keyed_stream_key_by_key() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.runtime-mode", "BATCH")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    stream = env.from_collection([("a", 30), ("b", 5), ("a", 10), ("b", 1)])
    keyed = stream.key_by(lambda value: value[0], Types.STRING())
    with keyed.map(Count()).execute_and_collect() as results:
        assert list(results) == [["a", 30, 1], ["a", 10, 2], ["b", 5, 1], ["b", 1, 2]]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_positive(limit: int) -> None:
    with pytest.raises(InvalidProgramError, match="limit"):
        environment().from_collection([1]).execute_and_collect("job", limit)


def test_files_hold_the_text_of_declared_types(tmp_path: Path) -> None:
    env = environment()
    source = env.from_collection([0])
    values = {
        "tuple": (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), "(1,a)"),
        "row": (Types.ROW([Types.INT(), Types.STRING()]), Row(1, None), "+I[1, null]"),
        "boolean": (Types.BOOLEAN(), True, "true"),
        "double": (Types.DOUBLE(), 1e20, "1.0E20"),
        "map": (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, "{a=1}"),
        "undeclared": (None, (1, "a"), "(1, 'a')"),
        "text": (Types.STRING(), "as it is", "as it is"),
    }
    for name, (declared, value, _) in values.items():
        sink = FileSink.for_row_format(str(tmp_path / name), Encoder.simple_string_encoder())
        sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        source.flat_map(lambda _, value=value: [value], declared).sink_to(sink.build())
    env.execute()
    written = {
        name: [file.read_text() for file in (tmp_path / name).glob("part-*")] for name in values
    }
    assert written == {name: [text + "\n"] for name, (_, _, text) in values.items()}
