"""Jobs whose sinks commit with checkpoints, and which fail at critical moments."""

import os
import signal
import threading
import uuid
from pathlib import Path

from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.connectors.writer_sink import StatefulSinkWriter
from penstock.datastream import MapFunction
from penstock.datastream.connectors import (
    Committer,
    CommittingSinkWriter,
    PythonSink,
    SupportsCommitter,
    SupportsWriterState,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from penstock.datastream.functions import (
    CheckpointedFunction,
    CheckpointListener,
    SourceFunction,
)
from penstock.datastream.state import ListStateDescriptor

from recovery.programs import environment

KEYS = 10
BATCHES = 40
POLICIES = {
    "on checkpoint": RollingPolicy.on_checkpoint_rolling_policy,
    "by size": lambda: RollingPolicy.default_rolling_policy(part_size=20_000),
}


class Fate:
    """Fails once at every moment for which a folder contains a file.

    The failing task removes the file: so each failure happens once, however often it is restarted.
    """

    def __init__(self, folder, how):
        self.folder = str(folder)
        self.how = how

    def strike(self, moment):
        try:
            Path(self.folder, moment).unlink()
        except FileNotFoundError:
            return
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError(moment)


class PacedNumbers(SourceFunction, CheckpointedFunction, CheckpointListener):
    """Emits numbers in batches, each after a checkpoint that includes the previous batch.

    So checkpoints are spread over the whole job, however fast it is.
    """

    def __init__(self, elements, batches=BATCHES):
        self.elements = elements
        self.batches = batches
        self.position = 0
        self.completed = threading.Semaphore(0)

    def __reduce__(self):
        return PacedNumbers, (self.elements, self.batches)

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("position", Types.LONG())
        self.state = context.get_operator_state_store().get_list_state(descriptor)
        for position in self.state.get():
            self.position = position

    def snapshot_state(self, context):
        self.state.update([self.position])

    def notify_checkpoint_complete(self, checkpoint_id):
        self.completed.release()

    def cancel(self):
        self.completed.release()

    def run(self, ctx):
        while self.position < self.elements and ctx.is_running():
            self.wait(ctx)
            with ctx.get_checkpoint_lock():
                for _ in range(self.elements // self.batches):
                    ctx.collect(self.position)
                    self.position += 1
            self.completed.acquire()

    def wait(self, ctx):
        """Wait before a batch; overridden by sources that something else paces, too."""


class FailingOnTheWay(MapFunction, CheckpointListener):
    """Fails between two checkpoints, and at the notification of a complete one."""

    def __init__(self, fate):
        self.fate = fate
        self.complete = 0
        self.seen = 0

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete += 1
        if self.complete > 1:
            self.fate.strike("told before the sink")

    def map(self, value):
        self.seen += 1
        if self.complete and self.seen % 100 == 0:
            self.fate.strike("on the way")
        return value


def fates(folder, moments):
    folder.mkdir()
    for moment in moments:
        (folder / moment).touch()


def lines(elements, fate, options):
    """Return each number once, behind a keyed stage, as text; and the environment."""
    env = environment(options)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    stream = (
        env.add_source(PacedNumbers(elements), type_info=Types.LONG())
        .map(lambda number: (number % KEYS, 1), pair)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(FailingOnTheWay(fate), pair)
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    )
    return env, stream


def expected_lines(elements):
    """Return all counts of each key, in order."""
    return sorted(
        f"{key} {count}" for key in range(KEYS) for count in range(1, elements // KEYS + 1)
    )


def write_files(out, elements, policy, fate, options, compactor=None):
    """Run the job with a FileSink; compact the files of four checkpoints or none."""
    env, stream = lines(elements, fate, options)
    sink = (
        FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(POLICIES[policy]())
    )
    if compactor is not None:
        builder = FileCompactStrategy.builder().enable_compaction_on_checkpoint(4)
        sink.enable_compact(builder.set_num_compact_threads(2).build(), compactor)
    stream.sink_to(sink.build())
    env.execute()


# ---- a sink in Python --------------------------------------------------------------------------


class TransactionWriter(CommittingSinkWriter, StatefulSinkWriter):
    """Stores lines, and writes a file of them for each commit; some lines remain in its state."""

    def __init__(self, folder, fate, kept=()):
        self.folder = folder
        self.fate = fate
        self.kept = list(kept)

    def write(self, element, context):
        self.kept.append(element)

    def flush(self, end_of_input):
        self.fate.strike("flush")
        self.ended = end_of_input

    def prepare_commit(self):
        # An odd line waits for the next checkpoint, unless there is none.
        count = len(self.kept) if self.ended else len(self.kept) // 2 * 2
        ready, self.kept = self.kept[:count], self.kept[count:]
        name = uuid.uuid4().hex
        Path(self.folder, f"{name}.pending").write_text("".join(f"{line}\n" for line in ready))
        self.fate.strike("prepare commit")
        return [name] if ready else []

    def snapshot_state(self, checkpoint_id):
        self.fate.strike("snapshot")
        return ["", *self.kept]


class TransactionCommitter(Committer):
    """Renames the files; commits one of them late."""

    def __init__(self, folder, fate):
        self.folder = folder
        self.fate = fate

    def commit(self, requests):
        self.fate.strike("before commit")
        for request in requests:
            name = request.get_committable()
            if request.get_number_of_retries() == 0 and name < "4":
                request.retry_later()
                continue
            pending = Path(self.folder, f"{name}.pending")
            if not pending.exists():
                assert Path(self.folder, f"{name}.committed").exists()
                request.signal_already_committed()
                continue
            pending.rename(pending.with_suffix(".committed"))
            self.fate.strike("within commit")
        self.fate.strike("after commit")


class TransactionSink(PythonSink, SupportsCommitter, SupportsWriterState):
    def __init__(self, folder, fate):
        super().__init__()
        self.folder = str(folder)
        self.fate = fate

    def create_writer(self, context):
        return TransactionWriter(self.folder, self.fate)

    def restore_writer(self, context, recovered_state):
        self.fate.strike("restore writer")
        return TransactionWriter(self.folder, self.fate, filter(None, recovered_state))

    def create_committer(self, context):
        if context.get_restored_checkpoint_id() is not None:
            self.fate.strike("restore committer")
        return TransactionCommitter(self.folder, self.fate)


def write_transactions(out, elements, fate, options):
    """Run the job with the sink in Python."""
    env, stream = lines(elements, fate, options)
    stream.sink_to(TransactionSink(out, fate))
    env.execute()


def collect_lines(elements, fate, options):
    """Run the job, and return its results."""
    _, stream = lines(elements, fate, options)
    with stream.execute_and_collect() as results:
        return list(results)
