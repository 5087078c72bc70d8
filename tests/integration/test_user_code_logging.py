"""Lines that user code logs reach the driver's log, with the operator and the subtask.

Method: programs on real workers and in threads of this process; a handler at the driver's root
logger collects the records.
"""

import json
import logging
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from penstock.common import Configuration, Time, Types
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.taskexecutor.logs import forwarder
from support.patience import PATIENCE_S

NAME = "my.application"


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, name: str = NAME) -> list[logging.LogRecord]:
        return [record for record in self.records if record.name == name]


@pytest.fixture
def log() -> Iterator[Records]:
    """Yield the driver's log at INFO."""
    root, records = logging.getLogger(), Records()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(records)
    yield records
    root.removeHandler(records)
    root.setLevel(level)


def environment(target: str = "local", **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", target)
    for key, value in options.items():
        configuration.set_string(key.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def say(what: str) -> None:
    logging.getLogger(NAME).info("%s, 100%%", what)


class Function(MapFunction):
    def open(self, runtime_context):
        say("open")

    def map(self, value):
        say("map")
        return value

    def close(self):
        say("close")


class Source(SourceFunction):
    def run(self, ctx):
        say("run")
        ctx.collect(1)

    def cancel(self):
        pass


class Async(AsyncFunction):
    async def async_invoke(self, value):
        say("async")
        return [value]

    def timeout(self, value):
        return []


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield value

    def on_timer(self, timestamp, ctx):
        say("timer")
        return []


class Sink(SinkFunction):
    def invoke(self, value, context=None):
        say("sink")


def key(value):
    say("key")
    return value


def everywhere(env: StreamExecutionEnvironment) -> None:
    stream = env.add_source(Source(), "source", Types.LONG()).map(Function()).name("mapper")
    stream = AsyncDataStream.ordered_wait(stream, Async(), Time.minutes(1)).name("waiter")
    stream = stream.filter(lambda n: say("filter") or True).name("keeper")
    stream.key_by(key).process(Timers()).name("timed").add_sink(Sink()).name("sinker")
    env.execute()


OPERATORS = {
    "run": "Source: source",
    "open": "mapper",
    "map": "mapper",
    "close": "mapper",
    "async": "waiter",
    "filter": "keeper",
    "timer": "timed",
    "sink": "Sink: sinker",
}


@pytest.mark.parametrize(
    ("target", "runtime"), [("local", "native"), ("local", "pure"), ("in-process", "")]
)
def test_records_name_operator_and_subtask(
    target: str, runtime: str, log: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every kind of operator, in all of its methods, and in its threads."""
    if runtime:
        if runtime == "native":
            pytest.importorskip("penstock._core")
        monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    everywhere(environment(target))
    said = {}
    for record in log.of():
        head, _, tail = record.getMessage().rpartition(": ")
        assert tail.endswith(", 100%")
        assert head == f"{record.operator} (1/1)"
        assert record.subtask == 0
        assert (record.levelno, record.funcName) == (logging.INFO, "say")
        said.setdefault(tail.removesuffix(", 100%"), set()).add(record.operator)
    assert {what: said[what] for what in OPERATORS} == {w: {o} for w, o in OPERATORS.items()}
    assert "key" in said


def test_levels_are_those_of_the_program(log: Records) -> None:
    """The level of its root logger and those that it has set."""
    logging.getLogger("quiet").setLevel(logging.ERROR)
    logging.getLogger("loud").setLevel(logging.DEBUG)

    def speak(value):
        for name in (NAME, "quiet", "loud"):
            logging.getLogger(name).debug("debug")
            logging.getLogger(name).warning("warning")

    env = environment()
    env.from_collection([1]).map(speak)
    env.execute()
    said = [(r.name, r.levelname) for r in log.records if r.name in (NAME, "quiet", "loud")]
    assert said == [(NAME, "WARNING"), ("loud", "DEBUG"), ("loud", "WARNING")]


def test_the_option_sets_the_level(log: Records) -> None:
    env = environment(logging_level="DEBUG")
    env.from_collection([1]).map(lambda n: logging.getLogger(NAME).debug("deep"))
    env.execute()
    assert [record.getMessage() for record in log.of()] == ["Map (1/1): deep"]


def test_options_of_pyflink_set_levels(log: Records) -> None:
    """Also a single logger's level, which wins over the root's and the program's."""
    options = {
        "python.logging.default.level": "WARN",
        "python.logging.level.overrides": f"{NAME}:TRACE,silent:OFF",
    }
    env = environment(**options)

    def speak(_: int) -> None:
        for name in (NAME, "other", "silent"):
            logging.getLogger(name).debug("deep")
            logging.getLogger(name).critical("loud")

    env.from_collection([1]).map(speak)
    env.execute()
    assert [r.getMessage() for r in log.of()] == ["Map (1/1): deep", "Map (1/1): loud"]
    assert [r.getMessage() for r in log.of("other")] == ["Map (1/1): loud"]
    assert log.of("silent") == []


def test_an_exception_comes_with_its_traceback(log: Records) -> None:
    def fail(value):
        try:
            return 1 / (value - 1)
        except ZeroDivisionError:
            logging.getLogger(NAME).exception("half \ud800 of a character")

    env = environment()
    env.from_collection([1]).map(fail)
    env.execute()
    (record,) = log.of()
    text = logging.Formatter().format(record)
    assert "half \\ud800 of a character" in text
    assert "return 1 / (value - 1)" in text


def test_lines_beyond_the_queue_are_dropped_and_counted(log: Records) -> None:
    """The task does not wait for the driver; logged and dropped lines add up to all lines."""
    total = 5 * forwarder.MAX_QUEUED_RECORDS

    def flood(value):
        for number in range(total):
            say(str(number))
        # A worker that ends does not wait for long.
        (sender,) = (h for h in logging.root.handlers if isinstance(h, forwarder.LogForwarder))
        while not sender._is_idle():
            threading.Event().wait(0.005)

    env = environment()
    env.from_collection([1]).map(flood)
    env.execute()
    # The end of a job does not wait for long either.
    for thread in threading.enumerate():
        if thread.name == "worker logs":
            thread.join(PATIENCE_S)
    dropped = sum(
        record.args[0] + record.args[2]
        for record in log.of("penstock.jobmaster.workers.worker_logs")
        if "dropped" in record.msg
    )
    assert len(log.of()) + dropped == total
    assert len(log.of()) >= forwarder.MAX_QUEUED_RECORDS


def test_processes_that_user_code_forks_log_to_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """They have no connection to the driver."""

    def fork(value):
        child = multiprocessing.get_context("fork").Process(
            target=lambda: logging.getLogger(NAME).error("from a child")
        )
        child.start()
        child.join()

    env = environment()
    env.from_collection([1]).map(fork)
    env.execute()
    assert "from a child" in capfd.readouterr().err


PROGRAM = """
import logging
from penstock.datastream import StreamExecutionEnvironment

{setup}

def tell(value):
    logging.info("of the root")
    logging.getLogger("newcomer").info("value %d", value)
    logging.getLogger("newcomer").debug("hidden")

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([7]).map(tell)
env.execute()
"""


def said_by_a_program(tmp_path: Path, setup: str, **options: str) -> list[str]:
    """Return the lines on standard error of a program in a separate process."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(setup=setup))
    options = {"execution.target": "local", **options}
    run = subprocess.run(
        [sys.executable, str(program)],
        env={"PENSTOCK_CONFIGURATION": json.dumps(options)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stderr.splitlines()


@pytest.mark.parametrize(
    "options", [{}, {"logging.level": "INFO"}, {"rest.port": "0"}], ids=lambda one: str(one)
)
def test_a_program_without_logging_sees_info(options: dict[str, str], tmp_path: Path) -> None:
    """Users see a line, once, without any setup of logging."""
    said = said_by_a_program(tmp_path, "", **options)
    tails = [line.partition(" INFO taskexecutor-1 ")[2] for line in said]
    assert tails.count("root: Map (1/1): of the root") == 1
    assert tails.count("newcomer: Map (1/1): value 7") == 1
    assert not any("hidden" in line for line in said)
    if "logging.level" not in options:
        assert not any("penstock." in tail for tail in tails)


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("logging.basicConfig(format='mine: %(message)s')", []),
        (
            "logging.basicConfig(format='mine: %(message)s', level='INFO')",
            ["mine: Map (1/1): of the root", "mine: Map (1/1): value 7"],
        ),
        ("logging.getLogger().setLevel('ERROR')", []),
        ("logging.getLogger('newcomer').setLevel('ERROR')", ["of the root"]),
    ],
)
def test_a_program_with_logging_sees_what_it_asked_for(
    setup: str, expected: list[str], tmp_path: Path
) -> None:
    """Its levels, handlers and formats are unchanged."""
    said = [line for line in said_by_a_program(tmp_path, setup) if "Map (1/1)" in line]
    assert len(said) == len(expected)
    assert all(line.endswith(end) for line, end in zip(said, expected, strict=True))


def test_threads_of_this_process_leave_its_logging_as_it_was(log: Records) -> None:
    """The in-process target names records by a factory, for as long as a job runs."""
    before = logging.getLogRecordFactory()
    everywhere(environment("in-process"))
    assert logging.getLogRecordFactory() is before
    logging.getLogger(NAME).info("of the program")
    assert log.of()[-1].getMessage() == "of the program"
