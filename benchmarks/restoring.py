"""The time to write a savepoint, to start from it, and to start at another parallelism.

``measured`` runs the keyed sum of ``checkpoints.py`` at parallelism 2, and restarts it; the times
of starts are from the submission to the first record of every subtask behind the state, including
the start of workers.
"""

import tempfile
import time
from pathlib import Path

from jobs import ended
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import MapFunction

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
STRIDE = 7919
PATIENCE_S = 600


class Arrival(MapFunction):
    """Records when the first record of a subtask arrives, and when many have arrived."""

    def __init__(self, folder, many):
        self.folder = folder
        self.many = many

    def open(self, runtime_context):
        self.seen = 0
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        self.seen += 1
        if self.seen in (1, self.many):
            name = "first" if self.seen == 1 else "many"
            Path(self.folder, f"{name}-{self.subtask}").write_text(str(time.monotonic_ns()))
        return value


def submitted(folder, keys, parallelism, options):
    """Start the job; its arrivals are recorded in the folder."""
    folder.mkdir()
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "parallelism.default": str(parallelism),
        "pipeline.max-parallelism": "128",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = NumberSequenceSource(0, 10**15)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    pairs = numbers.map(lambda number: (number * STRIDE % keys, 1), PAIR)
    sums = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).uid("sums")
    sums.map(Arrival(str(folder), 2 * keys // parallelism), PAIR).filter(lambda pair: False).print()
    return env.execute_async("restoring")


def arrived(folder, name, parallelism):
    """Return when the first and the last subtask had got so far, by the monotonic clock."""
    deadline = time.monotonic() + PATIENCE_S
    paths = [folder / f"{name}-{subtask}" for subtask in range(parallelism)]
    while not all(path.exists() and path.read_text() for path in paths):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {name} element of all subtasks in {folder}")
        time.sleep(0.001)
    times = [int(path.read_text()) for path in paths]
    return min(times), max(times)


def start_s(folder, keys, parallelism, options):
    """Return the seconds from the submission to the first record, and to that of every subtask."""
    begin = time.monotonic_ns()
    client = submitted(folder, keys, parallelism, options)
    first, last = arrived(folder, "first", parallelism)
    ended(client)
    return (first - begin) / 1e9, (last - begin) / 1e9


def measured(keys: int) -> dict[str, float]:
    """Return seconds by row."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        options = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }
        client = submitted(folder / "first", keys, 2, options)
        arrived(folder / "first", "many", 2)
        # Then all tasks run, as a savepoint requires.
        checkpoints = folder / "checkpoints"
        while not list(checkpoints.glob("*/chk-*/_metadata")):
            time.sleep(0.01)
        begin = time.monotonic_ns()
        savepoint = client.trigger_savepoint(str(folder / "savepoints")).result()
        written_s = (time.monotonic_ns() - begin) / 1e9
        ended(client)
        # The checkpoint that is retained after the cancellation.
        [checkpoint] = [found.parent for found in checkpoints.glob("*/chk-*/_metadata")]
        path = "execution.state-recovery.path"
        first_s, all_s = start_s(folder / "again", keys, 2, {path: str(checkpoint)})
        return {
            "savepoint written": written_s,
            "start from a checkpoint to first record": first_s,
            "start from a checkpoint to all subtasks": all_s,
            "start from the savepoint": start_s(folder / "saved", keys, 2, {path: savepoint})[1],
            "start of 3 subtasks from a checkpoint of 2": start_s(
                folder / "rescaled", keys, 3, {path: str(checkpoint)}
            )[1],
            "start without state": start_s(folder / "empty", keys, 2, {})[1],
        }
