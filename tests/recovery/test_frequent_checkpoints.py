"""Programs with known results, with a checkpoint every 20 ms and no restart (M51, M54, M65).

Goal: checkpoints change no result, at any moment of a program, its end included. Method: tests of
whole programs run again, in a separate process, with other defaults.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, SourceFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import StateBackendError
from penstock.taskexecutor.rocksdb import snapshot
from penstock.taskexecutor.rocksdb.backend import RocksDBKeyedStateBackend
from support.patience import PATIENCE_S

from recovery.savepoint_programs import environment

TESTS = Path(__file__).parents[1]
PROGRAMS = [
    "test_functions_beyond_pyflink.py",
    "test_pyflink_behaviour_side_outputs.py",
    "test_pyflink_behaviour_windows.py",
    "test_time_beyond_pyflink.py",
]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("runtime", "backend"), [("native", "hashmap"), ("pure", "hashmap"), ("native", "rocksdb")]
)
def test_checkpoints_change_no_result(runtime, backend):
    options = {
        "execution.checkpointing.interval": "20 ms",
        "restart-strategy.type": "none",
        "state.backend.type": backend,
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + [str(TESTS / "integration" / name) for name in PROGRAMS],
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PENSTOCK_RUNTIME": runtime,
            "PENSTOCK_CONFIGURATION": json.dumps(options),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=880,
    )
    assert done.returncode == 0, done.stdout[-10_000:]


WRITING = threading.Event()


class Two(SourceFunction):
    """Emits one record, and another one while a checkpoint of the first is being written."""

    def run(self, ctx):
        ctx.collect(0)
        assert WRITING.wait(PATIENCE_S)
        ctx.collect(1)

    def cancel(self):
        WRITING.set()


class Counts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


def test_a_task_ends_whose_checkpoint_is_being_written(monkeypatch):
    """A measurement never reads the files that the task removes, and so does not fail the job."""
    ended, failed = threading.Event(), threading.Event()
    WRITING.clear()

    class Late(snapshot.ReadOnlyDatabase):
        def __init__(self, *arguments):
            WRITING.set()
            assert ended.wait(PATIENCE_S)
            try:
                super().__init__(*arguments)
            except StateBackendError:
                failed.set()
                raise

    dispose = RocksDBKeyedStateBackend.dispose

    def dispose_and_wait(backend):
        dispose(backend)
        ended.set()
        assert failed.wait(PATIENCE_S)

    monkeypatch.setattr(snapshot, "ReadOnlyDatabase", Late)
    monkeypatch.setattr(RocksDBKeyedStateBackend, "dispose", dispose_and_wait)
    options = {
        "execution.target": "in-process",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled": "false",
        "restart-strategy.type": "none",
        "state.backend.type": "rocksdb",
    }
    env = environment(options, parallelism=1)
    numbers = env.add_source(Two(), type_info=Types.LONG()).key_by(lambda _: 0, Types.LONG())
    with numbers.process(Counts(), Types.LONG()).execute_and_collect() as results:
        assert list(results) == [1, 2]
    assert failed.is_set()
