"""Jobs on Spark that lose what they run on, or raise.

``python recovering.py MASTER FOLDER [KIND…]``, the kinds being those of `recovery.chaos`.
"""

import contextlib
import sys
from pathlib import Path

import cloudpickle
import psutil
from recovery import chaos

#: What is killed, and by what it is known.
VICTIMS = {
    "worker": "penstock.taskexecutor",
    "daemon": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
}


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
            if any(VICTIMS[name] in argument for argument in process.cmdline()):
                found.append(process)
    return found


def kill(name, progress):
    # A worker whose executor is gone goes on for a while, and is nobody's child any more.
    while not (victims := those_of(name)):
        progress.await_checkpoint()
    victims[0].kill()
    print("killed", name, flush=True)


def main(master, folder, kinds):
    # Executors need not have the tests' modules.
    cloudpickle.register_pickle_by_value(chaos)
    checkpoints, deaths = folder / "checkpoints", folder / "deaths"
    deaths.mkdir()
    stream = chaos.job(
        checkpoints,
        RaisesTwice("first", str(deaths), 2),
        workers=2,
        options={
            "execution.target": "spark",
            "spark.master": master,
            "spark.ui.enabled": "false",
            **chaos.options_of(kinds),
        },
    )
    progress = chaos.Progress(checkpoints)
    with stream.execute_and_collect("recovering") as results:
        while len(list(deaths.iterdir())) < 2:
            progress.await_checkpoint()
        progress.await_checkpoint()
        if master.startswith("local-cluster"):
            # Without its daemon a Python worker goes on; the next one needs a new daemon.
            for name in ("worker", "daemon", "worker", "executor", "worker"):
                kill(name, progress)
                progress.await_checkpoint()
        progress.stop(results.get_job_client(), folder / "savepoints")
        rows = [tuple(row) for row in results]
    print("counted", chaos.check(rows, is_exact=True, workers=2))
    print("left", sorted(path.name for path in checkpoints.iterdir()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
