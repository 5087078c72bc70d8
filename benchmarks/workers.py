"""Many workers of one slot on one machine: how long they take, what each costs.

    python benchmarks/workers.py [--workers 200]

Runs a job with a source, a rebalance, a map and a keyed reduce at the parallelism of as many
workers, all connected with all, and prints the time to its end, the CPU time and the proportional
memory of a worker.
"""

import argparse
import json
import threading
import time
from pathlib import Path

import psutil
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

RESULTS = Path(__file__).parent / "results" / "workers.json"


def job(workers: int) -> float:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("taskmanager.numberOfTaskSlots", "1")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(workers)
    counts = (
        env.from_collection(list(range(1000)))
        .rebalance()
        .map(lambda x: (x % 50, 1))
        .key_by(lambda x: x[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    begin = time.monotonic()
    with counts.execute_and_collect() as results:
        assert sum(1 for _ in results) == 1000
    return time.monotonic() - begin


class Observer(threading.Thread):
    """Notes the most that the workers took together, twice a second."""

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
    seconds = job(workers)
    observer = Observer()
    observer.start()
    job(workers)
    observer.stop()
    rows = [
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
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
