"""A job whose outcome is known, and which fails on the way: what recovery tests run.

Numbers are counted by key; a function on the way raises, or kills its worker, on the first
attempts.  The last count of each key says whether anything was lost or counted twice.
"""

import os
import signal
from collections import Counter
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointListener

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 10


class Misfortune(MapFunction, CheckpointListener):
    """Fails once a file says that enough checkpoints are complete, each time at another count.

    Which attempt fails is decided by files, which are made exactly once: so the job fails as
    often as asked, however often its tasks are restarted.
    """

    def __init__(self, folder, failures, how):
        self.folder = folder
        self.failures = failures
        self.how = how
        self.seen = 0
        self.complete = 0

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete = checkpoint_id

    def map(self, value):
        self.seen += 1
        if self.complete and self.seen % 1000 == 0:
            self.fail_perhaps()
        return value

    def fail_perhaps(self):
        done = len(os.listdir(self.folder))
        if done >= self.failures:
            return
        try:
            Path(self.folder, str(done)).touch(exist_ok=False)
        except FileExistsError:
            return
        self.complete = 0
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("misfortune")


def counts(elements, folder, failures, how, options):
    """The last count of each key, and how often the job failed."""
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "10 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "1 ms",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    stream = (
        env.from_source(
            NumberSequenceSource(0, elements - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        .map(lambda number: (number % KEYS, 1), PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(Misfortune(str(folder), failures, how), PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .max(1)
    )
    last = Counter()
    with stream.execute_and_collect("counts") as results:
        for key, count in results:
            last[key] = max(last[key], count)
    return last, len(os.listdir(folder))
