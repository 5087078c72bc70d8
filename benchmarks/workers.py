"""Many workers of one slot on one machine: their start time and their cost.

    python benchmarks/workers.py [--workers 200]

Runs a job with a source, a rebalance, a map and a keyed reduce, with one subtask of each per worker
and all-to-all connections, and prints the time until all its subtasks have started and to its end,
the CPU time and the proportional memory of a worker.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import psutil
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import MapFunction, ReduceFunction
from workloads import harness


class Starts:
    """Records that a subtask has started, as a file in the job's folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, context) -> None:
        name = f"{type(self).__name__} {context.get_index_of_this_subtask()}"
        Path(self.folder, name).touch()


class Pair(Starts, MapFunction):
    def map(self, value):
        return value % 50, 1


class Count(Starts, ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


def job(workers: int) -> tuple[float, float]:
    """Run the job; return seconds until all its subtasks have started, and to its end."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("taskmanager.numberOfTaskSlots", "1")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(workers)
    with tempfile.TemporaryDirectory() as folder:
        counts = (
            env.from_collection(list(range(1000)))
            .rebalance()
            .map(Pair(folder))
            .key_by(lambda x: x[0])
            .reduce(Count(folder))
        )
        begin, begin_wall = time.monotonic(), time.time()
        with counts.execute_and_collect() as results:
            assert sum(1 for _ in results) == 1000
        seconds = time.monotonic() - begin
        started = [path.stat().st_mtime for path in Path(folder).iterdir()]
    assert len(started) == 2 * workers
    return max(started) - begin_wall, seconds


class Observer(threading.Thread):
    """Records the peak memory of the workers together, twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.workers = 0
        self.memory = 0
        self.cpu = 0.0
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.5):
            memory, cpu, workers = 0, 0.0, 0
            for process in psutil.Process().children(recursive=True):
                try:
                    memory += process.memory_full_info().pss
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                cpu += times.user + times.system
                workers += 1
            self.workers = max(self.workers, workers)
            self.memory, self.cpu = max(self.memory, memory), max(self.cpu, cpu)

    def stop(self) -> None:
        self._end.set()
        self.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=200)
    workers = parser.parse_args().workers
    start_s, seconds = job(workers)
    observer = Observer()
    observer.start()
    job(workers)
    observer.stop()
    rows = [
        {
            "name": f"all subtasks of a job of {workers} workers have started",
            "value": round(start_s, 2),
            "unit": "s",
            "goal": 10,
        },
        {
            "name": f"a job of {workers} workers, to its end",
            "value": round(seconds, 2),
            "unit": "s",
        },
        {
            "name": "CPU time of a worker, the job's work included",
            "value": round(observer.cpu / max(1, observer.workers) * 1000),
            "unit": "ms",
            "goal": 60,
        },
        {
            "name": "proportional memory of a worker",
            "value": round(observer.memory / max(1, observer.workers) / 2**20, 1),
            "unit": "MiB",
            "goal": 12,
        },
    ]
    for row in rows:
        print(f"{row['name']:50} {row['value']:>8} {row['unit']}  goal {row.get('goal', '-')}")
    harness.write_document("workers", rows)


if __name__ == "__main__":
    main()
