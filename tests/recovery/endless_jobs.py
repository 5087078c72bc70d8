"""Jobs that run until they are told to end, and write files that follow from their input.

``python -m recovery.endless_jobs FOLDER KIND OPTIONS`` runs one of them; the options are JSON.
"""

import json
import sys
import time
from pathlib import Path

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AsyncDataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.functions import CheckpointedFunction, SourceFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows
from penstock.errors import CheckpointError
from support.patience import PATIENCE_S

from recovery.operator_programs import Negate, Told

KEYS = 10
#: The count of a key's numbers in one session.
SESSION = 5
#: The number of lines in each file of the job that reads files.
LINES = 200
COUNTED = Types.TUPLE([Types.LONG(), Types.LONG()])
SUMMED = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])


class UntilTold(SourceFunction, CheckpointedFunction):
    """Emits numbers until a file ``end`` exists; then writes their count to a file."""

    def __init__(self, folder):
        self.folder = folder
        self.position = 0

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("position", Types.LONG())
        self.state = context.get_operator_state_store().get_list_state(descriptor)
        for position in self.state.get():
            self.position = position

    def snapshot_state(self, context):
        self.state.update([self.position])

    def run(self, ctx):
        while ctx.is_running() and not Path(self.folder, "end").exists():
            with ctx.get_checkpoint_lock():
                for _ in range(10):
                    ctx.collect(self.position)
                    self.position += 1
            time.sleep(0.005)
        Path(self.folder, "numbers").write_text(str(self.position))

    def cancel(self):
        pass


class Sessions(TimestampAssigner):
    """Pauses event time after some numbers of each key."""

    def extract_timestamp(self, value, record_timestamp):
        return value + value // (SESSION * KEYS) * 1_000


def numbers(env, folder):
    return env.add_source(UntilTold(str(folder)), type_info=Types.LONG())


def counts(stream):
    """Count the elements of each key, and emit each count."""
    return (
        stream.map(lambda number: (number % KEYS, 1), COUNTED)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    )


def expected_counts(total):
    return [f"{number % KEYS} {number // KEYS + 1}" for number in range(total)]


def sessions(stream):
    """Emit the size and the sum of each session of each key."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Sessions())
    return (
        stream.assign_timestamps_and_watermarks(strategy)
        .set_parallelism(1)
        .map(lambda number: (number % KEYS, 1, number), SUMMED)
        .key_by(lambda one: one[0], Types.LONG())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(500)))
        .reduce(lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]))
        .map(lambda one: f"{one[0]} {one[1]} {one[2]}", Types.STRING())
    )


def expected_sessions(total):
    found = {}
    for number in range(total):
        session = number % KEYS, number // (SESSION * KEYS)
        size, added = found.get(session, (0, 0))
        found[session] = size + 1, added + number
    return [f"{key} {size} {added}" for (key, _), (size, added) in found.items()]


def broadcast(stream):
    """Let both subtasks count all records, and forward their own part."""
    told = stream.map(lambda number: number, Types.LONG()).set_parallelism(1).broadcast(Told.COUNT)
    passed = stream.rebalance().connect(told).process(Told())
    return passed.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())


def expected_broadcast(total):
    return [
        *(f"passed {number}" for number in range(total)),
        *(f"told {count}" for count in range(1, total + 1) for _ in range(2)),
    ]


def asynchronous(stream):
    asked = AsyncDataStream.unordered_wait(
        stream.rebalance(), Negate(), Time.seconds(60), 50, Types.LONG()
    )
    return asked.map(str, Types.STRING())


def expected_asynchronous(total):
    return [str(-number) for number in range(total)]


ROCKSDB = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.unaligned.enabled": "true",
}


class Job:
    """One of the jobs: how it changes its source, its results, and its options."""

    def __init__(self, do, expected, source=numbers, **options):
        self.do = do
        self.expected = expected
        self.source = source
        self.options = options

    def start(self, folder, options):
        """Start the job; return its client."""
        configuration = Configuration()
        for key, value in {
            "execution.checkpointing.interval": "100 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": "10 ms",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "parallelism.default": "2",
            **self.options,
            **options,
        }.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        sink = (
            FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        )
        self.do(self.source(env, folder)).sink_to(sink.build())
        return env.execute_async("endless")

    def feed(self, folder):
        """Feed the job more input, if it does not generate numbers itself."""

    def end(self, folder, client):
        """End the job, and wait until it has ended."""
        (folder / "end").touch()
        client.get_job_execution_result().result()

    def total(self, folder):
        """Return how many numbers the job has read."""
        return int((folder / "numbers").read_text())

    def check(self, folder):
        """Compare the lines of its files with the model; return how many numbers it has read."""
        paths = [path for path in (folder / "out").iterdir() if not path.name.startswith(".")]
        found = sorted(line for path in paths for line in path.read_text().splitlines())
        wanted = sorted(self.expected(self.total(folder)))
        assert found == wanted, f"{folder.name}: {len(found)} lines instead of {len(wanted)}"
        return self.total(folder)


class FileJob(Job):
    """A job whose numbers arrive as successive files, and whose reader stores its position."""

    def feed(self, folder):
        (folder / "in").mkdir(exist_ok=True)
        number = len(list((folder / "in").iterdir()))
        lines = range(number * LINES, (number + 1) * LINES)
        (folder / "next").write_text("".join(f"{line}\n" for line in lines))
        (folder / "next").rename(folder / "in" / f"{number:06}")

    def total(self, folder):
        return len(list((folder / "in").iterdir())) * LINES

    def end(self, folder, client):
        # Output that a failed stop has committed must not repeat, so the stop waits for all lines.
        wanted = len(self.expected(self.total(folder)))
        deadline_s = time.monotonic() + PATIENCE_S
        while self._written(folder) < wanted:
            assert time.monotonic() < deadline_s, "lines are missing"
            time.sleep(0.05)
        while True:
            try:
                client.stop_with_savepoint(True, str(folder / "savepoints")).result()
            except CheckpointError as error:
                if "needs a job that runs" in str(error):
                    raise
                print(f"once more: {error}", file=sys.stderr)
            else:
                return

    @staticmethod
    def _written(folder):
        paths = [path for path in (folder / "out").glob("*") if not path.name.startswith(".")]
        return sum(path.read_text().count("\n") for path in paths)


def lines_of_files(env, folder):
    (folder / "in").mkdir(exist_ok=True)
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(folder / "in")
    ).monitor_continuously(Duration.of_millis(50))
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "files")
    return stream.map(int, Types.LONG())


JOBS = {
    "counts": Job(counts, expected_counts),
    "rocksdb": Job(counts, expected_counts, **ROCKSDB),
    "sessions": Job(sessions, expected_sessions),
    "sessions in rocksdb": Job(sessions, expected_sessions, **ROCKSDB),
    "broadcast": Job(broadcast, expected_broadcast),
    "async": Job(asynchronous, expected_asynchronous),
    # Each number is a line, whatever the order of the files.
    "files": FileJob(asynchronous, expected_asynchronous, lines_of_files),
}


def main(folder, kind, options):
    job = JOBS[kind]
    folder.mkdir(exist_ok=True)
    job.start(folder, options).get_job_execution_result().result()
    print(job.check(folder), "numbers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
