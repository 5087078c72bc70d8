"""Savepoints of running jobs, also when they stop or cancel the job (internals M52, M62, M30).

Method: real processes of the local target; sources that would run for minutes.
"""

import threading
import time
from pathlib import Path

import pytest
from penstock.common import JobStatus, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction, SourceFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import CheckpointError, InvalidProgramError, JobCancelledError

from recovery.savepoint_programs import asked, counted, environment, numbers, stopped

MANY = 10**9


def is_savepoint(path, directory):
    return Path(path).parent == Path(directory) and (Path(path) / "_metadata").is_file()


@pytest.mark.parametrize(
    ("runtime", "target"), [("native", "local"), ("pure", "local"), (None, "in-process")]
)
def test_a_job_continues_after_a_savepoint_and_stops_with_one(
    tmp_path, monkeypatch, runtime, target
):
    """Without enabled checkpoints, as in Flink."""
    if runtime is not None:
        monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment({"execution.target": target})
    with counted(numbers(env, MANY), slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        first = asked(client.trigger_savepoint, str(tmp_path))
        assert client.get_job_status().result() is JobStatus.RUNNING
        second, counts = stopped(results, tmp_path)
        assert client.get_job_status().result() is JobStatus.FINISHED
    assert is_savepoint(first, tmp_path)
    assert is_savepoint(second, tmp_path)
    assert first != second
    assert 0 < sum(counts.values()) < MANY


@pytest.mark.parametrize("interval", ["10 ms", "1 h"])
def test_checkpoints_and_savepoints_do_not_disturb_each_other(tmp_path, interval):
    """The savepoint that stops the job is also the last checkpoint that tasks end with."""
    options = {
        "execution.checkpointing.interval": interval,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
    }
    env = environment(options)
    with counted(numbers(env, MANY), slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        paths = [asked(client.trigger_savepoint), asked(client.trigger_savepoint)]
        paths.append(asked(client.stop_with_savepoint, False))
        list(results)
    assert all(is_savepoint(path, tmp_path / "savepoints") for path in paths)
    checkpoints = tmp_path / "checkpoints"
    assert not checkpoints.exists() or not list(checkpoints.iterdir()), "a finished job keeps none"


class Padded(MapFunction):
    """Makes records so large that a few more than 18 fill the buffers of unread results."""

    def __init__(self, marker):
        self.marker = marker

    def map(self, value):
        if value == 18:
            self.marker.touch()
        return str(value).rjust(1024 * 1024)


@pytest.mark.parametrize("target", ["local", "in-process"])
@pytest.mark.parametrize("interval", ["", "1 h"])
def test_a_program_that_waits_for_a_savepoint_need_not_read(tmp_path, target, interval):
    """Otherwise it would wait for barriers that wait behind the results that it should read."""
    options = {"execution.target": target}
    if interval:
        options["execution.checkpointing.interval"] = interval
    env = environment(options, parallelism=1)
    marker = tmp_path / "marker"
    stream = numbers(env, MANY).map(Padded(marker), Types.STRING())
    with stream.execute_and_collect() as results:
        while not marker.exists():
            threading.Event().wait(0.01)
        client = results.get_job_client()
        first = asked(client.trigger_savepoint, str(tmp_path))
        last = asked(client.stop_with_savepoint, False, str(tmp_path))
        shown = [int(text) for text in results]
    assert 18 < len(shown) < MANY
    assert shown == list(range(len(shown)))
    assert is_savepoint(first, tmp_path)
    assert is_savepoint(last, tmp_path)


class Marks(MapFunction):
    """Passes records on, and tells by a file that one has come."""

    def __init__(self, marker):
        self.marker = marker

    def map(self, value):
        self.marker.touch()
        return value


class Timestamps(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


@pytest.mark.parametrize("drain", [True, False])
@pytest.mark.parametrize("interval", ["", "10 ms"])
def test_event_time_ends_with_a_drain_alone(tmp_path, drain, interval):
    """D-1: with drain the windows close before the end; without, they stay in the savepoint."""
    options = {"execution.checkpointing.interval": interval} if interval else {}
    env = environment(options)
    marker = tmp_path / "marker"
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())
    counts = (
        counted(numbers(env, MANY).map(Marks(marker), Types.LONG()), slowly=True)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda pair: pair[0], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .reduce(lambda one, other: other)
    )
    with counts.execute_and_collect() as results:
        while not marker.exists():
            threading.Event().wait(0.01)
        asked(results.get_job_client().stop_with_savepoint, drain, str(tmp_path))
        assert bool(list(results)) == drain


def test_a_cancelled_job_leaves_its_savepoint(tmp_path):
    env = environment()
    numbers(env, MANY).filter(lambda number: False).print()
    client = env.execute_async()
    path = asked(client.cancel_with_savepoint, str(tmp_path))
    assert is_savepoint(path, tmp_path)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_the_errors_of_impossible_savepoints(tmp_path):
    """The job continues until it has ended."""
    env = environment()
    numbers(env, MANY).filter(lambda number: False).print()
    client = env.execute_async("numbers")
    asked(client.trigger_savepoint, str(tmp_path))
    unnamed = client.trigger_savepoint()
    assert "execution.checkpointing.savepoint-dir" in str(unnamed.exception())
    with pytest.raises(CheckpointError, match="no directory"):
        unnamed.result()
    file = tmp_path / "file"
    file.touch()
    for call in (
        client.trigger_savepoint,
        client.cancel_with_savepoint,
        lambda directory: client.stop_with_savepoint(False, directory),
    ):
        future = call(str(file))
        assert str(file) in str(future.exception())
        assert isinstance(future.exception(), CheckpointError)
        assert future.done()
        assert not future.cancelled()
    for wrong in (3, "", b"/tmp"):
        with pytest.raises(InvalidProgramError, match="directory of a savepoint"):
            client.trigger_savepoint(wrong)
    with pytest.raises(InvalidProgramError, match="format"):
        client.trigger_savepoint(str(tmp_path), "AVRO")
    with pytest.raises(InvalidProgramError, match="advance_to_end_of_event_time"):
        client.stop_with_savepoint(str(tmp_path))
    assert client.get_job_status().result() is JobStatus.RUNNING
    asked(client.stop_with_savepoint, False, str(tmp_path), "NATIVE")
    assert "FINISHED" in str(client.trigger_savepoint(str(tmp_path)).exception())


class Ticks(SourceFunction):
    """Emits until it is cancelled, and then one more record."""

    def __init__(self):
        self.running = True

    def run(self, ctx):
        number = 0
        while self.running:
            ctx.collect(number)
            number += 1
        ctx.collect(-1)

    def cancel(self):
        self.running = False


def test_a_source_function_comes_to_its_end(tmp_path):
    """Elements emitted after the cancellation are not lost: the barrier is behind them."""
    env = environment(parallelism=1)
    ticks = env.add_source(Ticks(), "ticks", Types.LONG())
    with ticks.filter(lambda number: number < 1).execute_and_collect() as results:
        assert next(results) == 0
        asked(results.get_job_client().stop_with_savepoint, False, str(tmp_path))
        assert list(results) == [-1]


class Failing(SourceFunction):
    """Raises instead of ending properly."""

    def __init__(self):
        self.running = True

    def run(self, ctx):
        ctx.collect(0)
        while self.running:
            time.sleep(0.001)
        raise RuntimeError("it does not stop")

    def cancel(self):
        self.running = False


def test_a_savepoint_of_a_job_that_fails_while_it_stops(tmp_path):
    """The caller is told both: where the savepoint is, or why there is none."""
    env = environment({"execution.target": "in-process"}, parallelism=1)
    env.add_source(Failing(), "failing", Types.LONG()).print()
    client = env.execute_async()
    with pytest.raises(CheckpointError, match="it does not stop"):
        asked(client.stop_with_savepoint, False, str(tmp_path))
    with pytest.raises(RuntimeError, match="it does not stop"):
        client.get_job_execution_result().result()
    assert not list(tmp_path.iterdir()), "nothing is left of it"
