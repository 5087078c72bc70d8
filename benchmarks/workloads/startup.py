"""Start to first record: on the local target, and on Spark beyond Spark's own start.

    python benchmarks/workloads/startup.py [--target local|spark ...] [--repeat 3]

Each run is a new process that runs the same small job twice, at parallelism 2; the second one finds
Spark started and its classes loaded.  Wall time also depends on the machine, so it is shown with
the CPU time of the process and its descendants.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import psutil
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

SPARK = {"spark.master": "local[2]", "spark.ui.enabled": "false"}


def cpu_s() -> dict[int, float]:
    """Return CPU seconds of this process, its descendants, and their awaited children."""
    process = psutil.Process()
    found: dict[int, float] = {}
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it ended between the two calls
        found[each.pid] = sum(times[:4])
    return found


def first_record(target: str) -> dict[str, float]:
    """Run a job; return seconds from its execution to its first record, and all CPU seconds."""
    used, started = cpu_s(), time.time()
    configuration = Configuration.from_dict({"execution.target": target, **SPARK})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    stamped = env.from_collection(list(range(100))).rebalance().map(lambda _: time.time())
    with stamped.execute_and_collect() as stamps:
        first = min(stamps)
    spent = sum(now - used.get(pid, 0.0) for pid, now in cpu_s().items())
    return {"wall_s": first - started, "cpu_s": spent}


def measure(target: str) -> dict[str, dict[str, float]]:
    """Measure, in a separate process, Spark's start, then two jobs."""
    found = {}
    if target == "spark":
        from penstock.spark.session import spark_context

        started = time.time()
        spark_context(SPARK)
        found["Spark's own start"] = {
            "wall_s": time.time() - started,
            "cpu_s": sum(cpu_s().values()),
        }
    found["first job"] = first_record(target)
    found["second job"] = first_record(target)
    return found


def main() -> None:
    """Print the medians of several runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", choices=["local", "spark"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", choices=["local", "spark"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    print(f"{'target':8} {'to the first record of':24} {'seconds':>8} {'cpu s':>8}")
    for target in arguments.target or ["local", "spark"]:
        command = [sys.executable, __file__, "--measure", target]
        runs = [
            json.loads(
                subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, text=True
                ).stdout.splitlines()[-1]
            )
            for _ in range(arguments.repeat)
        ]
        for step in runs[0]:
            wall, cpu = (
                statistics.median(run[step][unit] for run in runs) for unit in ("wall_s", "cpu_s")
            )
            print(f"{target:8} {step:24} {wall:8.2f} {cpu:8.2f}")


if __name__ == "__main__":
    main()
