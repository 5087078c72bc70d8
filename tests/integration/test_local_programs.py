"""Programs of the DataStream API on the local target, with either data plane.

Goal: results are right and complete, failures are clear, and a consumer that stops reading stops
the job.  Method: each program runs on real worker processes; results are compared with plain
Python's.
"""

import collections
import itertools
import os
import random
import re
import socket
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import InvalidProgramError, JobCodeError, JobExecutionError
from support.patience import PATIENCE_S

WORD_COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])
MakeEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(params=["pure", "native"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == "native":
        pytest.importorskip("penstock._core")
    monkeypatch.setenv("PENSTOCK_RUNTIME", name)
    return name


@pytest.fixture
def environment(runtime: str) -> MakeEnvironment:
    """Create environments."""

    def make(parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        for key, value in options.items():
            configuration.set_string(key.replace("__", "-").replace("_", "."), value)
        made = StreamExecutionEnvironment.get_execution_environment(configuration)
        made.set_parallelism(parallelism)
        return made

    return make


def text(lines: int) -> list[str]:
    words = [f"word{number}" for number in range(200)]
    chooser = random.Random(7)
    return [" ".join(chooser.choices(words, k=8)) for _ in range(lines)]


def last_counts(pairs: list[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word, count in pairs:
        counts[word] = max(count, counts.get(word, 0))
    return counts


ENCRYPTED = {
    "security_ssl_internal_enabled": "true",
    "taskmanager_network_same__host_enabled": "false",
}


DEBLOATED = {
    "taskmanager_network_memory_buffer__debloat_enabled": "true",
    "taskmanager_network_memory_buffer__debloat_period": "2 ms",
    "taskmanager_network_memory_buffer__debloat_target": "1 ms",
}


@pytest.mark.parametrize(
    ("parallelism", "options"),
    [(1, {}), (3, {}), (2, ENCRYPTED), (2, DEBLOATED)],
    ids=["1", "3", "TLS", "debloated"],
)
def test_word_count_from_files_to_files(
    environment: MakeEnvironment, tmp_path: Path, parallelism: int, options: dict[str, str]
) -> None:
    lines = text(400)
    (tmp_path / "input").mkdir()
    for number, part in enumerate((lines[:150], lines[150:])):
        (tmp_path / "input" / f"{number}.txt").write_text("\n".join(part) + "\n")
    env = environment(parallelism, **options)
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(tmp_path / "input")
    )
    output = str(tmp_path / "output")
    sink = FileSink.for_row_format(output, Encoder.simple_string_encoder())
    (
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "text")
        .flat_map(lambda line: [(word, 1) for word in re.split(r"\W+", line)], WORD_COUNT)
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .sum(1)
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
        .sink_to(sink.build())
    )
    env.execute("WordCount")
    written = [
        (line.split()[0], int(line.split()[1]))
        for file in Path(output).rglob("part-*")
        for line in file.read_text().splitlines()
    ]
    expected = collections.Counter(word for line in lines for word in line.split())
    assert last_counts(written) == expected
    assert len(written) == expected.total()


def test_collected_results_are_complete(environment: MakeEnvironment) -> None:
    env = environment(2)
    stream = (
        env.from_collection(list(range(5000)), Types.LONG())
        .key_by(lambda n: n % 7)
        .reduce(lambda one, other: one + other)
    )
    with stream.execute_and_collect() as results:
        sums = list(results)
    assert len(sums) == 5000
    expected = {sum(range(rest, 5000, 7)) for rest in range(7)}
    assert expected <= set(sums)


def test_collected_results_of_one_subtask_keep_their_order(environment: MakeEnvironment) -> None:
    """Flink's collect sink has one subtask, like its collection source, whatever the job has."""
    stream = environment(2).from_collection(list(range(1000)), Types.LONG())
    with stream.execute_and_collect() as results:
        assert list(results) == list(range(1000))
    assert stream.execute_and_collect(limit=7) == list(range(7))


def test_printing_reaches_standard_output(
    environment: MakeEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(1)
    env.from_collection(["one", "two"], Types.STRING()).print()
    env.execute()
    assert capfd.readouterr().out.split() == ["one", "two"]


def test_a_user_exception_names_operator_and_subtask(environment: MakeEnvironment) -> None:
    def divide(number: int) -> float:
        return 1 / number

    env = environment(1)
    env.from_collection([1, 0], Types.LONG()).map(divide).name("reciprocal").print()
    with pytest.raises(ZeroDivisionError) as raised:
        env.execute()
    shown = "".join(traceback.format_exception(raised.value))
    assert "reciprocal" in shown
    assert "(1/1)" in shown
    assert "return 1 / number" in shown


def test_a_user_exception_behind_the_network(environment: MakeEnvironment) -> None:
    """The producers lose their consumer at the same time; the user's exception must win."""

    def fail(number: int) -> int:
        if number == 900:
            raise LookupError("number 900")
        return number

    env = environment(2)
    env.from_collection(list(range(1000)), Types.LONG()).key_by(lambda n: n).map(fail).print()
    with pytest.raises(LookupError, match="number 900"):
        env.execute()


class StateInOpen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.state.update(0)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield value


def test_keyed_state_in_open_fails_a_job_that_could_restart(environment: MakeEnvironment) -> None:
    made = environment(2, execution_checkpointing_interval="10 s")
    numbers = made.from_source(
        NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), ""
    )
    keyed = numbers.key_by(lambda value: value % 5, Types.LONG())
    keyed.process(StateInOpen(), Types.LONG()).name("opening").sink_to(DiscardingSink())
    with pytest.raises(InvalidProgramError, match=r"StateInOpen.open\(\) .*'opening'.*'seen'"):
        made.execute()


def test_closing_the_results_early_cancels_an_endless_job(environment: MakeEnvironment) -> None:
    env = environment(1)
    with (
        env.from_collection([1], Types.LONG())
        .flat_map(lambda one: itertools.count(one), Types.LONG())
        .execute_and_collect() as results
    ):
        assert list(itertools.islice(results, 1000)) == list(range(1, 1001))


def test_a_record_of_64_megabytes_arrives_intact(environment: MakeEnvironment) -> None:
    size = 64 * 1024 * 1024
    env = environment(2)
    stream = (
        env.from_collection([b"a", b"b"], Types.PRIMITIVE_ARRAY(Types.BYTE()))
        .map(lambda seed: seed * size if seed == b"b" else seed)
        .key_by(lambda data: len(data))
        .map(lambda data: (len(data), data.count(b"b")))
    )
    with stream.execute_and_collect() as results:
        assert sorted(results) == [(1, 0), (size, size)]


def test_a_source_whose_server_is_absent_says_so(environment: MakeEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    env = environment(1)
    env.socket_text_stream("127.0.0.1", port).print()
    with pytest.raises((OSError, JobExecutionError)) as raised:
        env.execute()
    assert str(port) in "".join(traceback.format_exception(raised.value))


def test_a_program_that_is_a_script(runtime: str, tmp_path: Path) -> None:
    """Definitions of the script are pickled by value; workers find a module beside it."""
    (tmp_path / "beside.py").write_text("def double(number):\n    return number * 2\n")
    script = tmp_path / "program.py"
    script.write_text(
        "import beside\n"
        "from penstock.common import Types\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "from functools import lru_cache\n"
        "@lru_cache\n"
        "def one():\n"
        "    return 1\n"
        "class Adder:\n"
        "    def __call__(self, number):\n"
        "        return beside.double(number) + one()\n"
        "if __name__ == '__main__':\n"
        "    env = StreamExecutionEnvironment.get_execution_environment()\n"
        "    env.set_parallelism(1)\n"
        "    env.from_collection([1, 2], Types.LONG()).map(Adder(), Types.LONG()).print()\n"
        "    env.execute()\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["3", "5"]


def test_code_that_cannot_be_loaded_is_not_retried(
    environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart would load it again; this strategy restarts for ever, immediately."""
    module = types.ModuleType("known_to_the_driver_alone")
    exec("def double(number): return 2 * number", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    strategy = {"type": "fixeddelay", "fixed__delay_attempts": "2147483647"}
    options = {f"restart__strategy_{key}": value for key, value in strategy.items()}
    env = environment(1, **options, restart__strategy_fixed__delay_delay="0 ms")
    env.from_collection([1], Types.LONG()).map(module.double, Types.LONG()).print()
    with pytest.raises(JobCodeError, match="needs the module 'known_to_the_driver_alone'"):
        env.execute()


def test_printed_lines_reach_standard_output_whole(tmp_path: Path) -> None:
    """Even if Python does not buffer: the driver's log goes to the same terminal."""
    script = tmp_path / "printing.py"
    script.write_text(
        "from penstock.common import Configuration\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "configuration = Configuration()\n"
        "configuration.set_string('execution.target', 'local')\n"
        "env = StreamExecutionEnvironment.get_execution_environment(configuration)\n"
        "env.set_parallelism(1)\n"
        "def printed(number):\n"
        "    print('number', number, end='.\\n')\n"
        "    return number\n"
        "env.from_collection([1, 2]).map(printed).filter(lambda n: n < 0).print()\n"
        "env.execute()\n"
    )
    # A read from such a pipe returns exactly one write.
    reading, writing = os.pipe2(os.O_DIRECT)
    with open(reading, "rb", buffering=0) as reader:
        with open(writing, "wb", buffering=0) as writer:
            subprocess.run(
                [sys.executable, str(script)],
                stdout=writer,
                check=True,
                timeout=240,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        written = list(iter(lambda: reader.read(4096), b""))
    assert written == [b"number 1.\n", b"number 2.\n"]


def nasty_keys() -> list[tuple[object, int]]:
    """Return pairs of key and group: the keys of a group are equal."""
    nan = float("nan")
    return [
        (1, 0),
        (1.0, 1),
        (True, 2),
        (nan, 3),
        (-nan, 3),
        (0.0, 4),
        (-0.0, 5),
        ([1, 2], 6),
        ((1, nan), 7),
        ((1.0, nan), 8),
        ({"a": 1}, 9),
        *[(float(number), 10 + number) for number in range(2, 20)],
    ]


def add_counts(left: tuple, right: tuple) -> tuple:
    assert left[1] == right[1], (left, right)
    return left[0], left[1], left[2] + right[2]


def test_keys_are_the_same_at_every_parallelism(environment: MakeEnvironment) -> None:
    elements = [(key, group, 1) for _ in range(3) for key, group in nasty_keys()]
    expected = collections.Counter(group for _, group, _ in elements)
    for parallelism, mode in ((1, "STREAMING"), (2, "STREAMING"), (3, "STREAMING"), (2, "BATCH")):
        env = environment(parallelism, execution_runtime__mode=mode)
        stream = env.from_collection(elements).rebalance().map(lambda element: element)
        folded = stream.key_by(lambda element: element[0]).reduce(add_counts)
        counts: collections.Counter[int] = collections.Counter()
        with folded.execute_and_collect() as results:
            for _, group, count in results:
                counts[group] = max(counts[group], count)
        assert counts == expected


def test_keys_of_a_declared_field_are_the_same_at_every_parallelism(
    environment: MakeEnvironment,
) -> None:
    """Integers in a field of doubles become doubles in the exchange; the sender sees integers."""
    elements = [
        (number if odd else float(number), number, 1) for number in range(20) for odd in (0, 1)
    ]
    declared = Types.TUPLE([Types.DOUBLE(), Types.INT(), Types.INT()])
    for selector in (lambda element: element[0], lambda element: (element[0],)):
        stream = environment(3).from_collection(elements)
        typed = stream.map(lambda element: element, output_type=declared)
        with typed.key_by(selector).sum(2).execute_and_collect() as results:
            counts = [count for _, _, count in results]
        assert collections.Counter(counts) == {1: 20, 2: 20}
