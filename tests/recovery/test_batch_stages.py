"""A job in BATCH mode runs stage by stage, through partitions in files (internals M15, M44, M45).

Goal: stages use the same slots in turn, and only its producer writes again what was lost with a
worker.  Method: real processes of the local target, whose functions record where they run; the
expected results do not depend on that.
"""

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.errors import ConfigurationError, NetworkError

WORDS = [f"word {number % 7}" for number in range(700)]
COUNTS = [(f"word {number}", 100) for number in range(7)]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Noted(MapFunction):
    """Forwards records, and creates a file that names its subtask and process.

    The first attempts of a stage start together: each waits for the given number of others.
    """

    def __init__(self, folder, stage, together):
        self.folder = str(folder)
        self.stage = stage
        self.together = together

    def open(self, runtime_context):
        subtask = runtime_context.get_index_of_this_subtask()
        attempt = runtime_context.get_attempt_number()
        name = f"{self.stage} {subtask} {attempt} {os.getpid()}"
        Path(self.folder, name).touch()
        while sum(stage == self.stage for stage, *_ in noted(self.folder)) < self.together:
            time.sleep(0.01)

    def map(self, value):
        return value


class KillsTheOther(Noted):
    """Kills the worker of a producer, not its own, in its first attempt, after a result."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.is_first = runtime_context.get_attempt_number() == 0
        self.seen = 0

    def map(self, value):
        self.seen += 1
        if self.is_first and self.seen > 1:
            others = {pid for _, _, _, pid in noted(self.folder)} - {os.getpid()}
            for pid in others:
                os.kill(pid, signal.SIGKILL)
            while True:  # it is cancelled, as it reads the lost partition
                time.sleep(0.01)
        return value


def noted(folder):
    """Return (stage, subtask, attempt, process) of all attempts."""
    parts = [name.split() for name in sorted(os.listdir(folder))]
    return [(stage, int(subtask), int(attempt), int(pid)) for stage, subtask, attempt, pid in parts]


def environment(parallelism=2, **options):
    settings = {
        "execution.runtime-mode": "BATCH",
        "execution.target": "local",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings | options)
    )
    env.set_parallelism(parallelism)
    return env


def count_words(env, folder, last=Noted, together=2):
    """Count words in a separate slot sharing group, after the first stage."""
    env.set_buffer_timeout(0)  # each result is sent at once
    subtasks = 1 if last is KillsTheOther else env.get_parallelism()
    counted = (
        env.from_collection(WORDS, Types.STRING())
        .rebalance()
        .map(Noted(folder, "words", together), Types.STRING())
        .map(lambda word: (word, 1), PAIR)
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .set_parallelism(subtasks)
        .slot_sharing_group("counts")
        .map(last(folder, "counts", min(together, subtasks)), PAIR)
        .set_parallelism(subtasks)
    )
    with counted.execute_and_collect("word count") as results:
        return sorted(results)


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_stages_use_the_same_slots_after_each_other(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    assert count_words(environment(), tmp_path) == COUNTS
    ran = noted(tmp_path)
    assert [one[:3] for one in ran] == [
        (stage, subtask, 0) for stage in ("counts", "words") for subtask in (0, 1)
    ]
    assert len({pid for *_, pid in ran}) == 2


def test_pipelined_stages_run_at_the_same_time(tmp_path):
    """Each slot sharing group has its own slots."""
    options = {"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}
    assert count_words(environment(**options), tmp_path) == COUNTS
    assert len({pid for *_, pid in noted(tmp_path)}) == 4


def test_in_the_process_of_the_program(tmp_path):
    env = environment(**{"execution.target": "in-process"})
    assert count_words(env, tmp_path, together=1) == COUNTS


@pytest.mark.parametrize(
    ("runtime", "is_kept"), [("native", True), ("pure", True), ("native", False)]
)
def test_only_the_producer_of_lost_files_runs_again(tmp_path, monkeypatch, runtime, is_kept):
    """Unless that producer's own input was released after it had been read."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    release = {"jobmanager.partition.release-during-job-execution": str(not is_kept).lower()}
    assert count_words(environment(**release), tmp_path, KillsTheOther) == COUNTS
    ran = noted(tmp_path)
    words = {(subtask, attempt): pid for stage, subtask, attempt, pid in ran if stage == "words"}
    counting = {pid for stage, _, _, pid in ran if stage == "counts"}
    lost = next(subtask for subtask in (0, 1) if words[subtask, 0] not in counting)
    again = {(lost, 1)} if is_kept else {(0, 1), (1, 1)}
    assert words.keys() == {(0, 0), (1, 0)} | again
    assert [one[:3] for one in ran if one[0] == "counts"] == [("counts", 0, 0), ("counts", 0, 1)]


class Limited(MapFunction):
    """Forwards records, in a process whose files stay small, which is close to a full disk."""

    def open(self, runtime_context):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    def map(self, value):
        return value * 1000


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_the_error_names_a_full_disk(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment(1, **{"restart-strategy.type": "none"})
    env.from_collection(WORDS, Types.STRING()).map(Limited(), Types.STRING()).rebalance().map(
        len, Types.INT()
    ).set_parallelism(2).print()
    with pytest.raises(NetworkError, match=r"writing a blocking partition into .*io\.tmp\.dirs"):
        env.execute()


class DiesWithinARegion(Noted):
    """Forwards records; the kernel kills the first attempt's process within a write to its file.

    The write ends at the limit of the file, in the middle of a region, and the next one is fatal:
    no handler runs, as after ``kill -9``.
    """

    def open(self, runtime_context):
        super().open(runtime_context)
        if runtime_context.get_attempt_number() == 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            # The interpreter ignores the signal, and changes that only in the main thread.
            ctypes.CDLL(None).signal(signal.SIGXFSZ, signal.SIG_DFL.value)

    def map(self, value):
        return value * 1000


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_a_worker_that_dies_within_a_region_loses_it(tmp_path, monkeypatch, runtime):
    """No reader takes the half-written file for a whole one, and nothing of it is left."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    notes, files = tmp_path / "notes", tmp_path / "files"
    notes.mkdir()
    files.mkdir()
    env = environment(1, **{"io.tmp.dirs": str(files)})
    lengths = (
        env.from_collection(WORDS, Types.STRING())
        .map(DiesWithinARegion(notes, "words", 1), Types.STRING())
        .rebalance()
        .map(len, Types.INT())
        .set_parallelism(2)
    )
    with lengths.execute_and_collect() as results:
        assert list(results) == [6000] * len(WORDS)
    (first, second) = noted(notes)
    assert first[3] != second[3]
    assert list(files.iterdir()) == []


def test_missing_shuffle_modes_are_rejected():
    with pytest.raises(ConfigurationError, match="use ALL_EXCHANGES_BLOCKING"):
        environment(**{"execution.batch-shuffle-mode": "ALL_EXCHANGES_HYBRID_FULL"})


class OpenPartitions(MapFunction):
    """Map each element to the number of unnamed files that this process has open in a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def map(self, value):
        files = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(file.startswith(self.folder) for file in files)


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize(("release", "left"), [("true", 1), ("false", 3)])
def test_files_are_released_after_their_last_reader(tmp_path, monkeypatch, runtime, release, left):
    """The last of four stages in one slot finds only the output of the third one."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {"jobmanager.partition.release-during-job-execution": release}
    env = environment(1, **options, **{"io.tmp.dirs": str(tmp_path)})
    stream = env.from_collection(["a"], Types.STRING())
    for _ in range(2):
        stream = stream.rebalance().map(lambda value: value, Types.STRING())
    last = stream.rebalance().map(OpenPartitions(tmp_path), Types.INT())
    with last.execute_and_collect() as results:
        assert list(results) == [left]
