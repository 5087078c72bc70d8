"""A job that fails continues from its last checkpoint (internals M52, M58, M45).

Goal: nothing is lost or counted twice in state, whether a function raised or a worker was killed,
wherever checkpoints are stored.  Method: real processes of the local target.
"""

import threading

import pytest
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointListener
from penstock.jobmaster import failure_causes
from penstock.jobmaster.checkpointing.statistics import CheckpointStatistics

from recovery.programs import KEYS, checkpoints_after_part_of_a_source, counts, passed_on

ELEMENTS = 60_000


# Every pair of runtime, failure and storage occurs.
@pytest.mark.parametrize(
    ("runtime", "how", "storage"),
    [
        *(("native", "raise", one) for one in ("driver", "incremental", "rocksdb incremental")),
        *(("native", "kill", one) for one in ("files", "rocksdb")),
        *(("pure", "kill", one) for one in ("driver", "incremental", "rocksdb incremental")),
        *(("pure", "raise", one) for one in ("files", "rocksdb")),
    ],
)
def test_state_is_exact_after_failures(tmp_path, monkeypatch, runtime, how, storage):
    """Three failures, each after a checkpoint that the previous one did not have."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    failures = tmp_path / "failures"
    failures.mkdir()
    options = {}
    if storage != "driver":
        options["execution.checkpointing.dir"] = str(tmp_path / "checkpoints")
    if storage.startswith("rocksdb"):
        options["state.backend.type"] = "rocksdb"
        options["state.backend.rocksdb.localdir"] = str(tmp_path / "databases")
        options["penstock.rocksdb.cache.size"] = "64 kb"
    if storage.endswith("incremental"):
        options["execution.checkpointing.incremental"] = "true"
        options["execution.checkpointing.data-inline-threshold"] = "0 b"
    last, failed = counts(ELEMENTS, failures, 3, how, options)
    assert failed == 3, "the job ended before its last failure"
    assert last == dict.fromkeys(range(KEYS), ELEMENTS // KEYS)
    if storage != "driver":
        assert not list((tmp_path / "checkpoints").iterdir()), "a finished job keeps none"
    if storage.startswith("rocksdb") and how == "raise":
        assert not list((tmp_path / "databases").iterdir()), "nothing outlives its task"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_driver_keeps_checkpoints_although_a_directory_is_named(tmp_path, backend):
    """Nothing is written there, not even state too large to be inlined."""
    failures = tmp_path / "failures"
    failures.mkdir()
    options = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.storage": "jobmanager",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "execution.checkpointing.incremental": "true",
        "state.backend.type": backend,
    }
    last, failed = counts(ELEMENTS, failures, 1, "raise", options)
    assert failed == 1
    assert last == dict.fromkeys(range(KEYS), ELEMENTS // KEYS)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_state_of_many_slices_is_exact_after_failures(tmp_path, monkeypatch):
    """F7: snapshots that take many slices, between which elements change the state.

    In the pure runtime, which needs many slices where the native one needs one.
    """
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    failures = tmp_path / "failures"
    failures.mkdir()
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    keys, rounds = 8_000, 12
    # The first checkpoint is behind one round, when each key has its count.
    last, failed = counts(keys * rounds, failures, 2, "raise", options, keys, pace=keys // 2)
    assert failed == 2, "the job ended before its last failure"
    assert last == dict.fromkeys(range(keys), rounds)


@pytest.mark.parametrize("target", ["local", "in-process"])
def test_batch_jobs_take_no_checkpoints(tmp_path, target):
    """They end without a last one, and do not restart because of a configured interval."""
    options = {"execution.runtime-mode": "BATCH", "execution.target": target}
    last, _ = counts(1000, tmp_path, 0, "raise", options)
    assert last == dict.fromkeys(range(KEYS), 100)


def test_tasks_end_with_a_last_checkpoint(tmp_path):
    """FLIP-147: even with an endless interval, a bounded job ends soon."""
    last, failed = counts(1000, tmp_path, 0, "raise", {"execution.checkpointing.interval": "1 h"})
    assert failed == 0
    assert last == dict.fromkeys(range(KEYS), 100)


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize(
    ("timeout", "how", "padding"),
    [("0 ms", "kill", 0), ("0 ms", "raise", 900), ("5 ms", "kill", 900)],
)
def test_in_flight_records_arrive_once(tmp_path, monkeypatch, runtime, timeout, how, padding):
    """F-11, F-12: unaligned, and aligned that becomes unaligned, under backpressure.

    The segments are short, so that records span them and many are in flight.
    """
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    failures = tmp_path / "failures"
    failures.mkdir()
    options = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": timeout,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "taskmanager.memory.segment-size": "512",
        "execution.target": "local",
    }
    completed = []
    monkeypatch.setattr(
        CheckpointStatistics, "completed", recording(CheckpointStatistics.completed, completed)
    )
    elements = 20_000
    last, failed = passed_on(elements, failures, 3, how, options, pause_s=0.0001, padding=padding)
    assert failed > 0, "the job ended before its first failure"
    assert last == dict.fromkeys(range(KEYS), elements // KEYS)
    assert sum(completed) > 0, "no checkpoint found anything in flight"
    assert not list((tmp_path / "checkpoints").iterdir()), "a finished job keeps none"


@pytest.mark.parametrize(("runtime", "where"), [("native", "DISK"), ("pure", "MEMORY")])
def test_records_in_a_barrier_buffer_arrive_once(tmp_path, monkeypatch, runtime, where):
    """F4a: with a barrier buffer channels continue during an alignment."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {
        "penstock.checkpointing.barrier-buffer": where,
        "taskmanager.memory.segment-size": "512",
        "execution.target": "local",
    }
    elements = 10_000
    last, failed = passed_on(elements, tmp_path, 2, "raise", options, pause_s=0.00005, padding=900)
    assert failed > 0, "the job ended before its first failure"
    assert last == dict.fromkeys(range(KEYS), elements // KEYS)


def recording(method, persisted_bytes):
    """Return the method of the statistics, recording the persisted bytes of each checkpoint."""

    def completed(self, pending, checkpoint, wall_ms):
        method(self, pending, checkpoint, wall_ms)
        persisted_bytes.append(self.latest["completed"].total("persisted_bytes"))

    return completed


@pytest.mark.parametrize("source", ["numbers", "files", "numbers, then files"])
def test_checkpoints_continue_when_some_of_a_source_has_ended(tmp_path, source):
    """F14: the first subtask reads a short part, and the job outlives it by many checkpoints."""
    completed = checkpoints_after_part_of_a_source(source, tmp_path)
    assert completed > 5


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_restart_waits_for_no_explanation_of_what_is_cancelled(tmp_path, monkeypatch, how):
    """Tasks that read from a failed one fail too; their reports are not delayed."""
    monkeypatch.setattr(failure_causes, "GRACE_MS", 3_600_000)
    last, failed = counts(ELEMENTS, tmp_path, 2, how, {})
    assert failed == 2
    assert last == dict.fromkeys(range(KEYS), ELEMENTS // KEYS)


class SlowAndTold(MapFunction, CheckpointListener):
    """Works slowly, and reports the last complete checkpoint."""

    def open(self, runtime_context):
        self.complete = 0

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete = checkpoint_id

    def map(self, value):
        threading.Event().wait(0.2)
        return self.complete


def test_a_source_whose_records_take_long_takes_checkpoints(tmp_path):
    """The source handles messages between two records, not after a thousand of them."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "10 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    source = NumberSequenceSource(0, 10**9)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    with stream.map(SlowAndTold(), Types.LONG()).execute_and_collect() as results:
        assert any(complete > 0 for complete in results)
