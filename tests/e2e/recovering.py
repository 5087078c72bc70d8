"""Jobs on Spark that lose the processes that they run on, or raise.

``python recovering.py MASTER FOLDER [KIND…]``, the kinds being those of `recovery.chaos`, and

- ``adaptive``: a job that runs with the remaining slots of Spark, and uses new ones,
- ``dynamic``: Spark allocates executors dynamically, excludes failing ones, and is told that some
  will be decommissioned,
- ``nemesis``: each process and resource is lost, for a while or for good.
"""

import contextlib
import logging
import os
import queue
import random
import sys
import time
from pathlib import Path

import cloudpickle
import psutil
from e2e.spark_jobs import light_jvms
from pyspark import SparkContext
from recovery import chaos
from recovery.nemesis import limit_files
from support.patience import PATIENCE_S

#: The processes to kill, and the argument that identifies each.
VICTIMS = {
    "worker": "penstock.taskexecutor",
    "daemon": "penstock.spark.python_daemon",
    "executor": "org.apache.spark.executor.CoarseGrainedExecutorBackend",
}

ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 ms",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 ms",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.excludeOnFailure.enabled": "true",
    "spark.decommission.enabled": "true",
    # A task that never ends would delay its executor's end.
    "spark.executor.decommission.forceKillTimeout": "2s",
}


class Parallelisms(logging.Handler):
    """Stores the greatest parallelism of each change that the job master reports."""

    def __init__(self):
        super().__init__()
        self.told = queue.SimpleQueue()

    def emit(self, record):
        if "continues with another parallelism" in record.msg:
            self.told.put(max(record.args[1].values()))

    def await_(self, parallelism):
        found = self.told.get(timeout=PATIENCE_S)
        assert found == parallelism, f"it goes on with {found} instead of {parallelism}"
        print("goes on with", parallelism, flush=True)


class RaisesTwice(chaos.Count):
    """The first count, which raises once numbers have come for a while."""

    def process_element(self, value, ctx):
        if value[4] % chaos.SPLIT == 3000 and self.may_die("raise"):
            raise RuntimeError("on purpose")
        yield from super().process_element(value, ctx)


def those_of(name):
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if VICTIMS[name] in process.cmdline():
                found.append(process)
    return found


def kill(name, progress):
    # A worker whose executor has ended runs for a while, as an orphan.
    while not (victims := those_of(name)):
        progress.await_checkpoint()
    victims[0].kill()
    print("killed", name, flush=True)


def decommission(progress):
    """Tell Spark that an executor which serves the job will be decommissioned."""
    context = SparkContext._active_spark_context
    while not (victims := [one for one in those_of("executor") if serves(one)]):
        progress.await_checkpoint()
    words = victims[0].cmdline()
    executor = words[words.index("--executor-id") + 1]
    nobody = context._jvm.scala.Option.empty()
    why = context._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("on purpose", nobody)
    backend = context._jsc.sc().schedulerBackend()
    assert backend.decommissionExecutor(executor, why, False, False)
    victims[0].wait(PATIENCE_S)
    print("killed decommissioned", flush=True)


def serves(executor):
    """Return whether a worker of the job is one of its processes."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in executor.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if VICTIMS["worker"] in process.cmdline():
                    return True
    return False


def stop(name, progress):
    """Suspend a process for a while, and resume it before it counts as lost."""
    for victim in those_of(name)[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.suspend()
            time.sleep(random.random() * 2)
            victim.resume()
            print("stopped", name, flush=True)


def fill_disk(name, progress):
    """Prevent the files of these processes from growing for a while."""
    victims = those_of(name)
    for is_lifted in (False, True):
        for victim in victims:
            limit_files(victim.pid, is_lifted=is_lifted)
        time.sleep(0 if is_lifted else random.random() * 2)
    print("disk full", name, flush=True)


def strike(progress):
    """Cause each failure twice, except for the daemon; the job recovers in between."""
    faults = [(fault, name) for fault in (kill, stop) for name in ("worker", "executor")]
    # The worker of a dead daemon is an orphan: another one must exist.
    faults = [*2 * [*faults, (fill_disk, "worker")], (kill, "daemon")]
    random.seed(os.environ.get("SEED", "1"))
    random.shuffle(faults)
    for fault, name in faults:
        began_s = time.monotonic()
        fault(name, progress)
        progress.await_checkpoint()
        print(f"went on after {time.monotonic() - began_s:.2f} s", flush=True)


def main(master, folder, kinds):
    # Executors may lack the tests' modules.
    cloudpickle.register_pickle_by_value(chaos)
    checkpoints, deaths = folder / "checkpoints", folder / "deaths"
    deaths.mkdir()
    is_adaptive, is_nemesis, is_dynamic = (
        kind in kinds for kind in ("adaptive", "nemesis", "dynamic")
    )
    kinds = [kind for kind in kinds if kind in chaos.KINDS]
    parallelisms = Parallelisms()
    if is_adaptive:
        # A logger with its own handler writes nothing to standard error by itself.
        job_master = logging.getLogger("penstock.jobmaster.job_master")
        job_master.addHandler(parallelisms)
        job_master.setLevel(logging.INFO)
    stream = chaos.job(
        checkpoints,
        RaisesTwice("first", str(deaths), 2),
        workers=2,
        options={
            "execution.target": "spark",
            "spark.master": master,
            "spark.ui.enabled": "false",
            **light_jvms(master),
            **chaos.options_of(kinds),
            **(ADAPTIVE if is_adaptive else {}),
            **(DYNAMIC if is_dynamic else {}),
        },
    )
    progress = chaos.Progress(checkpoints)
    splits = 2
    with stream.execute_and_collect("recovering") as results:
        while len(list(deaths.iterdir())) < 2:
            progress.await_checkpoint()
        progress.await_checkpoint()
        if is_adaptive:
            if not parallelisms.told.empty():
                # One slot existed before the other; the source has as many splits.
                splits = 1
                parallelisms.await_(1)
                parallelisms.await_(2)
                progress.await_checkpoint()
            kill("executor", progress)
            # Spark replaces it, which takes a moment.
            parallelisms.await_(1)
            parallelisms.await_(2)
            progress.await_checkpoint()
        elif is_nemesis:
            strike(progress)
        elif is_dynamic:
            kill("worker", progress)
            progress.await_checkpoint()
            decommission(progress)
            progress.await_checkpoint()
        elif master.startswith("local-cluster"):
            # Without its daemon a Python worker continues; the next one needs a new daemon.
            for name in ("worker", "daemon", "worker", "executor", "worker"):
                kill(name, progress)
                progress.await_checkpoint()
        progress.stop(results.get_job_client(), folder / "savepoints")
        rows = [tuple(row) for row in results]
    print("counted", chaos.check(rows, is_exact=True, workers=splits))
    print("left", sorted(path.name for path in checkpoints.iterdir()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
