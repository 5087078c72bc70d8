"""A job with a known outcome that fails halfway: the program of recovery tests.

Numbers are counted by key; a function in between raises, or kills its worker, in the first
attempts.  The last count of each key shows whether any number was lost or counted twice.
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointListener

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 10


class Misfortune(MapFunction, CheckpointListener):
    """Fails once a file shows enough complete checkpoints, each time at another count.

    Files, which are created exactly once, decide which attempt fails: so the job fails as often as
    requested, however often its tasks are restarted.
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


class Paced(MapFunction, CheckpointListener):
    """Lets some records pass at once behind each complete checkpoint, and then one in a while.

    Chained to its source, which takes checkpoints between two elements: so there are checkpoints
    all along the job, however fast it is, and however slow they are.  That ends with the failures.
    """

    def __init__(self, folder, failures, elements):
        self.folder = folder
        self.failures = failures
        self.elements = elements

    def open(self, runtime_context):
        self.left = self.elements
        self.is_paced = len(os.listdir(self.folder)) < self.failures

    def notify_checkpoint_complete(self, checkpoint_id):
        self.left = self.elements

    def map(self, value):
        self.left -= 1
        if self.left < 0 and self.is_paced:
            time.sleep(0.001)
        return value


class Work(MapFunction):
    """Works slowly, so that its input is backpressured."""

    def __init__(self, pause_s):
        self.pause_s = pause_s
        self.due = 0.0

    def map(self, value):
        # A few at a time: a short sleep takes much longer than requested.
        self.due += self.pause_s
        if self.due >= 0.002:
            time.sleep(self.due)
            self.due = 0.0
        return value


def environment(options):
    """Return an environment with frequent checkpoints and immediate restarts."""
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
    return env


def passed_on(elements, folder, failures, how, options, *, pause_s, padding=0):
    """Count the elements of each key through two exchanges, and the failures of the job.

    The last function is slow, so that data waits in both exchanges; lost and duplicated records of
    either exchange change the counts.  ``padding`` lets records span buffers.
    """
    env = environment(options)
    text = "x" * padding
    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])
    stream = (
        env.from_source(
            NumberSequenceSource(0, elements - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        .map(lambda number: (number % KEYS, 1, text), triple)
        .key_by(lambda triple: triple[0], Types.LONG())
        .map(Misfortune(str(folder), failures, how), triple)
        .rebalance()
        .map(Work(pause_s), triple)
        .map(lambda triple: triple[:2], PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    last = Counter()
    with stream.execute_and_collect("passed on") as results:
        for key, count in results:
            last[key] = max(last[key], count)
    return last, len(os.listdir(folder))


def counts(elements, folder, failures, how, options, keys=KEYS, pace=2000):
    """Return the last count of each key, and how often the job failed.

    Between two checkpoints each of both sources emits ``pace`` elements, and few more.
    """
    env = environment(options)
    stream = (
        env.from_source(
            NumberSequenceSource(0, elements - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        .map(Paced(str(folder), failures, pace), Types.LONG())
        .map(lambda number: (number % keys, 1), PAIR)
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


class UntilSomeCheckpoints(MapFunction, CheckpointListener):
    """Blocks the second subtask until five checkpoints were complete after the first one ended.

    The first subtask creates a file when it is closed.
    """

    def __init__(self, folder):
        self.ended = Path(folder, "ended")

    def open(self, runtime_context):
        self.is_first = runtime_context.get_index_of_this_subtask() == 0
        self.complete = 0
        self.held = 0

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete += self.ended.exists()

    def map(self, value):
        # No wait: checkpoints are taken between two elements.
        if not self.is_first and self.complete <= 5:
            self.held += 1
            time.sleep(0.001)
        return value, self.complete

    def close(self):
        if self.is_first:
            self.ended.touch()


def checkpoints_after_part_of_a_source(source, folder):
    """Count the checkpoints that were complete after one of two subtasks had finished."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    inputs = Path(folder, "inputs")
    inputs.mkdir()
    for number in range(2):
        # The second file lasts longer than all checkpoints, at a millisecond per element.
        Path(inputs, f"{number}.txt").write_text("line\n" * (1 if number == 0 else 30_000))
    numbers = NumberSequenceSource(0, 60_000)
    lines = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(inputs)
    ).build()
    if source == "numbers":
        chosen = numbers
    elif source == "files":
        chosen = lines
    else:
        chosen = HybridSource.builder(NumberSequenceSource(0, 1)).add_source(numbers).build()
    stream = env.from_source(chosen, WatermarkStrategy.no_watermarks(), source)
    with stream.map(UntilSomeCheckpoints(folder)).execute_and_collect() as results:
        return max(complete for _, complete in results)
