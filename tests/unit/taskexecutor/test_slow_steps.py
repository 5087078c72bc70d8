"""Elements of a source that suddenly become slow end its step: timers and barriers wait for it."""

import importlib

import pytest
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.datastream.formats.parquet import ParquetColumnInputFormat
from penstock.taskexecutor.compiled import Output
from penstock.taskexecutor.sources import adaptive_emission
from penstock.testing import OneInputStreamOperatorTestHarness
from pyarrow import parquet, table

STEP = 1024


class Clock:
    """Advances by the cost of each record."""

    def __init__(self):
        self.now_ns, self.cost_ns = 0, 0

    def __call__(self):
        return self.now_ns


@pytest.fixture(params=["penstock._native.operators", "penstock.taskexecutor.compiled"])
def runtime(request, monkeypatch):
    """Return the modules of a runtime, whose sources read a clock of the test."""
    sources = importlib.import_module(f"{request.param}.source_operators")
    loop = importlib.import_module(f"{request.param}.operator_loop")
    clock = Clock()
    monkeypatch.setattr(sources, "monotonic_ns", clock)

    class Costly(loop.Output):
        def __init__(self):
            self.taken = []

        def collect(self, value, timestamp):
            self.taken.append(value)
            clock.now_ns += clock.cost_ns

        def collect_all(self, values, timestamp):
            for value in values:
                self.collect(value, timestamp)

    return sources, Costly(), clock


SOURCES = {
    "sequence": lambda sources: sources.NumberSequenceSource(0, 99_999),
    "iterator": lambda sources: sources.IteratorSource(iter(range(100_000))),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_step_ends_when_its_records_become_slow(name, runtime):
    sources, output, clock = runtime
    source = SOURCES[name](sources)
    source.output = output
    clock.cost_ns = 1000
    steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, STEP, STEP]
    for step in steps:
        assert source.emit_next(step) == sources.MORE_AVAILABLE
    assert output.taken == list(range(sum(steps)))
    clock.cost_ns = 100_000_000
    assert source.emit_next(STEP) == sources.MORE_AVAILABLE
    assert len(output.taken) - sum(steps) <= 30
    before = len(output.taken)
    assert source.emit_next(STEP) == sources.MORE_AVAILABLE
    assert len(output.taken) - before <= 8
    assert output.taken == list(range(len(output.taken)))


@pytest.mark.parametrize("name", SOURCES)
def test_all_is_emitted_once(name, runtime):
    sources, output, clock = runtime
    source = SOURCES[name](sources)
    source.output = output
    clock.cost_ns = 50
    while source.emit_next(STEP) == sources.MORE_AVAILABLE:
        pass
    assert output.taken == list(range(100_000))


COUNT = 10_000


def text_files(folder):
    (folder / "a").write_text("".join(f"{n}\n" for n in range(COUNT)))
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))


def csv_files(folder):
    (folder / "a").write_text("".join(f"{n}\n" for n in range(COUNT)))
    schema = CsvSchema.builder().add_number_column("n").build()
    rows = CsvReaderFormat.for_schema(schema, dead_letters=dead_letter_tag("bad"))
    return FileSource.for_record_stream_format(rows, str(folder))


def columns(folder):
    parquet.write_table(table({"n": range(COUNT)}), folder / "a", row_group_size=700)
    numbers = ParquetColumnInputFormat("n", Types.LONG())
    return FileSource.for_bulk_file_format(numbers, str(folder))


def frames(_folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_arrow(table({"n": range(COUNT)}))._transformation.operator


READERS = {"lines": text_files, "csv": csv_files, "columns": columns, "frames": frames}


class Slow(Output):
    """An output before a harness's own; its records advance the clock."""

    def __init__(self, clock):
        self.clock, self.taken = clock, 0

    def collect(self, value, timestamp):
        self.collect_all([value], timestamp)

    def collect_all(self, values, timestamp):
        number = len(list(values))
        self.taken += number
        self.clock.now_ns += number * self.clock.cost_ns


@pytest.mark.parametrize("name", READERS)
def test_files_and_frames_end_a_step_when_their_records_become_slow(name, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(adaptive_emission, "monotonic_ns", clock)
    made = READERS[name](tmp_path)
    test = OneInputStreamOperatorTestHarness(
        made.build().source_operator() if hasattr(made, "build") else made
    )
    with test:
        source = test.operator
        source.output = output = Slow(clock)
        clock.cost_ns = 1000
        for _ in range(4):
            source.emit_next(STEP)
        fast = output.taken
        assert fast > 2 * STEP, "steps are as long as they may be"
        clock.cost_ns = 100_000_000
        source.emit_next(STEP)
        assert 0 < output.taken - fast <= 64
        before = output.taken
        source.emit_next(STEP)
        assert output.taken - before <= 32
        clock.cost_ns = 50
        while source.emit_next(STEP) == 0:
            pass
        assert output.taken == COUNT
