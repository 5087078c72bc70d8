"""A worker that is told to end reports that, and its job restarts once."""

import os
import signal
import threading
import time
from pathlib import Path

from penstock.common import Configuration, Types
from penstock.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from support.patience import PATIENCE_S


class EndsItsWorker(MapFunction):
    """Sends its process the signal of a preempted executor, once, halfway.

    The process lives until the job runs elsewhere, as on a host that notices slowly.
    """

    def __init__(self, folder: Path) -> None:
        self.ended = folder / "ended"
        self.goes_on = folder / "goes on"

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.ended.exists():
            self.goes_on.touch()

    def map(self, value: int) -> int:
        if value == 500 and not self.ended.exists():
            self.ended.touch()
            threading.Thread(target=self.linger).start()
            os.kill(os.getpid(), signal.SIGTERM)
            while True:
                time.sleep(0.01)  # until the task is interrupted
        return value

    def linger(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.goes_on.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)


def test_a_worker_that_says_that_it_ends_costs_one_restart(tmp_path: Path) -> None:
    """Its tasks fail before its end is noticed; they are not deployed in its slots again."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(1000)), Types.LONG()).rebalance()
    with numbers.map(EndsItsWorker(tmp_path), Types.LONG()).execute_and_collect() as found:
        assert set(found) == set(range(1000))
    assert (tmp_path / "goes on").exists()
