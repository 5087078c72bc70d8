"""Absent methods of streams, their representations, and patterns of file names."""

import re
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from penstock.common import Configuration, JobExecutionResult, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import CountTumblingWindowAssigner
from penstock.errors import SerializationError


def env() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def numbers() -> Any:
    return env().from_collection([1, 2], Types.LONG())


def windows() -> Any:
    return numbers().key_by(abs).window(CountTumblingWindowAssigner(2))


def broadcast() -> Any:
    return numbers().broadcast(MapStateDescriptor("rules", Types.LONG(), Types.LONG()))


HINTS = [
    (numbers, "window", "call key_by first"),
    (numbers, "sum", "call key_by first"),
    (numbers, "reduce", "call key_by first"),
    (numbers, "count_window", "call key_by first"),
    (numbers, "interval_join", "call key_by first"),
    (numbers, "aggregate", "to windows first"),
    (numbers, "trigger", "to windows first"),
    (lambda: numbers().key_by(abs), "apply", "to windows first"),
    (windows, "map", "call reduce, aggregate, apply or process first"),
    (windows, "print", "call reduce, aggregate, apply or process first"),
    (windows, "sum", "write it as reduce"),
    (lambda: numbers().window_all(CountTumblingWindowAssigner(2)), "print", "first"),
    (lambda: numbers().connect(numbers()), "filter", "map, flat_map or process"),
    (broadcast, "map", "is for connect"),
    (lambda: numbers().connect(broadcast()), "map", "call process first"),
    (lambda: numbers().join(numbers()), "process", "where(…).equal_to(…).window(…)"),
    (lambda: numbers().co_group(numbers()), "apply", "where(…).equal_to(…).window(…)"),
    (numbers, "select", "call split first"),
    (numbers, "close_with", "call iterate first"),
    (numbers, "where", "call join or co_group first"),
    (lambda: numbers().print(), "map", "a sink ends a stream"),
    (numbers, "collect", "execute_and_collect()"),
    (numbers, "flatMap", "it is flat_map"),
    (numbers, "keyBy", "it is key_by"),
    (numbers, "groupBy", "it is key_by"),
    (numbers, "fliter", "did you mean filter?"),
    (windows, "aggregat", "did you mean aggregate?"),
    (env, "from_colection", "did you mean from_collection?"),
    (env, "map", "create one, for example with from_collection"),
    (env, "from_dataframe", "from_collection, which takes tables too"),
    (env, "from_sequence", "pass a NumberSequenceSource to from_source"),
]


@pytest.mark.parametrize(("make", "name", "hint"), HINTS)
def test_a_method_that_is_missing_says_what_to_do(make: Any, name: str, hint: str) -> None:
    given = make()
    with pytest.raises(AttributeError, match=re.escape(hint)) as raised:
        getattr(given, name)
    assert f"has no attribute {name!r}" in str(raised.value)


def test_the_interpreter_does_not_guess_beside_the_hint() -> None:
    with pytest.raises(AttributeError) as raised:
        numbers().fliter  # noqa: B018
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.lower().count("did you mean") == 1


def test_a_name_without_a_near_one_gets_no_hint() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'zzzz'$"):
        numbers().zzzz  # noqa: B018


def test_protocols_of_python_find_nothing() -> None:
    """Copying, notebooks and mocks look up names with underscores."""
    assert not hasattr(numbers(), "__len__")
    assert not hasattr(numbers(), "_repr_html_")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (numbers, "<DataStream 'Collection Source' of Long>"),
        (
            lambda: numbers().map(str).name("texts"),
            "<DataStream 'texts' of PickledByteArrayTypeInfo>",
        ),
        (lambda: numbers().key_by(abs), "<KeyedStream"),
        (windows, "<WindowedStream"),
        (lambda: numbers().connect(numbers()), "<ConnectedStreams"),
        (broadcast, "<BroadcastStream"),
        (lambda: numbers().print(), "<DataStreamSink 'Print to Std. Out'>"),
        (env, "<StreamExecutionEnvironment"),
    ],
)
def test_streams_show_what_they_are(make: Any, text: str) -> None:
    """Notebooks show the last value of a cell."""
    shown = repr(make())
    assert "object at 0x" not in shown
    assert shown.startswith(text)


def test_results_show_what_they_are() -> None:
    program = env()
    program.set_parallelism(1)
    with program.from_collection([1]).execute_and_collect("counting") as results:
        assert repr(results) == "<CloseableIterator of the results of job 'counting'>"
        assert list(results) == [1]
    program.from_collection([1]).map(abs)
    client = program.execute_async("counting")
    assert re.fullmatch(r"<JobClient of job 'counting' \([0-9a-f]{32}\): \w+>", repr(client))
    result = client.wait_for_result()
    assert isinstance(result, JobExecutionResult)
    assert repr(result) == str(result)


# ---- patterns of files -----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ("a.txt", "b.txt", "c.csv", "_d.txt", ".e.txt", "[f].txt", "more/g.txt", "more/_h.txt")
    (tmp_path / "more").mkdir()
    for name in names:
        (tmp_path / name).write_text(name + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("*.txt", {"a.txt", "b.txt", "[f].txt"}),
        ("[ab].txt", {"a.txt", "b.txt"}),
        ("?.csv", {"c.csv"}),
        ("_*.txt", {"_d.txt"}),
        ("**/*.txt", {"a.txt", "b.txt", "[f].txt", "more/g.txt"}),
        ("m*", {"more/g.txt"}),
        ("*", {"a.txt", "b.txt", "c.csv", "[f].txt", "more/g.txt"}),
        ("[f].txt", {"[f].txt"}),  # a file of that very name is no pattern
    ],
)
def test_read_text_file_takes_patterns(folder: Path, pattern: str, lines: set[str]) -> None:
    stream = env().read_text_file(str(folder / pattern))
    with stream.execute_and_collect() as results:
        found = list(results)
    assert sorted(found) == sorted(lines)


def test_a_file_source_takes_patterns_as_uris(folder: Path) -> None:
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), f"file://{folder}/*.csv", str(folder / "a.*")
    ).build()
    stream = env().from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as results:
        assert sorted(results) == ["a.txt", "c.csv"]


def test_a_pattern_that_fits_nothing_says_so(folder: Path) -> None:
    stream = env().read_text_file(str(folder / "*.parquet"))
    with (
        pytest.raises(FileNotFoundError, match="no file or folder matches"),
        stream.execute_and_collect() as results,
    ):
        list(results)


# ---- values that nest ------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = threading.Lock()
    for _ in range(depth):
        value = [value]
    return value


def down(depth: int) -> Any:
    return up(depth - 1) if depth else 1 / 0


def up(depth: int) -> Any:
    return down(depth)


def chained(depth: int) -> None:
    try:
        if depth:
            chained(depth - 1)
        else:
            down(0)
    except Exception as error:
        raise LookupError(depth) from error


@pytest.mark.parametrize(
    ("function", "error", "last_line"),
    [
        (lambda n: nested(190), SerializationError, "cannot pickle '_thread.lock' object"),
        (lambda n: down(200), ZeroDivisionError, "return up(depth - 1) if depth else 1 / 0"),
        (lambda n: chained(200), LookupError, "return up(depth - 1) if depth else 1 / 0"),
    ],
    ids=["value", "recursion", "causes"],
)
def test_tracebacks_stay_readable(function: Any, error: Any, last_line: str) -> None:
    """The first and the last frames of many, and the first and the last causes."""
    program = env()
    program.from_collection([1]).map(function).rebalance().map(str).set_parallelism(2)
    with pytest.raises(error) as raised:
        program.execute()
    text = "".join(traceback.format_exception(raised.value))
    assert last_line in text
    assert len(text) < 16_000


def test_a_deep_record_that_cannot_travel_has_a_short_traceback() -> None:
    with pytest.raises(SerializationError) as raised:
        env().from_collection([nested(200)])
    assert len("".join(traceback.format_exception(raised.value))) < 4_000
