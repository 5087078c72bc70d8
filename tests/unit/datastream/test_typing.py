"""A type checker follows the element type through a pipeline.

Method: mypy reveals the types of a small program.
"""

import textwrap

import pytest

PROGRAM = """
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors import PythonSource, SourceSplit

    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2, 3])
    texts = numbers.map(lambda v: str(v), Types.STRING())
    reveal_type(numbers)
    reveal_type(texts)
    reveal_type(texts.filter(lambda v: bool(v)).union(texts).rebalance())
    reveal_type(texts.flat_map(lambda v: v.split()))
    reveal_type(texts.key_by(lambda v: v[0]))
    reveal_type(texts.key_by(lambda v: v[0]).reduce(lambda a, b: a + b))
    reveal_type(texts.execute_and_collect())
    reveal_type(texts.execute_and_collect(limit=3))

    def read(source: PythonSource[bytes, SourceSplit]) -> None:
        reveal_type(env.from_source(source, WatermarkStrategy.no_watermarks(), "source"))
"""
REVEALED = [
    "DataStream[int]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[str]",
    "KeyedStream[str]",
    "DataStream[str]",
    "CloseableIterator[str]",
    "list[str]",
    "DataStream[bytes]",
]


def test_element_types_are_followed(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    report, errors, status = api.run(["--strict", "--cache-dir", str(tmp_path), str(program)])
    assert (errors, status) == ("", 0), report
    lines = [line for line in report.splitlines() if "Revealed type is" in line]
    found = [line.split('"')[1].rpartition(".")[2] for line in lines]
    assert found == REVEALED
