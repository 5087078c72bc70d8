"""A job whose workers are killed again and again; its final state is compared with a model.

Numbers go from a source to a keyed count, from there to a second keyed count, and to the driver:
separate tasks, on several workers.  Workers are killed from outside at random moments, in bursts,
and as soon as they start; and they kill themselves while they take a snapshot and while they
restore one.  When enough have died the job is stopped with a savepoint, with drain, and both counts
are emitted: they must be those of all numbers up to the last one of each split.

`python -m recovery.chaos --kills 60 --seed 1 --mode EXACTLY_ONCE --kind rocksdb incremental`
"""

import argparse
import contextlib
import logging
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointedFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import CheckpointError
from support.patience import PATIENCE_S

WORKERS = 3
SPLIT = 10**9
KEYS = {"first": 20, "second": 7}
END_OF_TIME = 2**61
#: (stage, key, split, count, sum, smallest, largest, largest of this attempt or -1); the source
#: emits numbers without a stage.
SUMMARY = Types.TUPLE([Types.STRING(), *[Types.LONG()] * 7])
#: The file whose existence shows that the job is being stopped.
STOPPING = "stopping"
#: The options in which jobs differ, besides their mode; kinds can be combined if their options can.
KINDS = {
    "incremental": {
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "0 b",
    },
    # Each change is in a segment of its own, with full snapshots among them.
    "changelog": {
        "state.changelog.enabled": "true",
        "state.changelog.storage": "filesystem",
        "state.changelog.periodic-materialize.interval": "150 ms",
        "execution.checkpointing.data-inline-threshold": "0 b",
    },
    # A cache that holds a part of the entries, so that those of the database matter.
    "rocksdb": {"state.backend.type": "rocksdb", "penstock.rocksdb.cache.size": "64 kb"},
    "unaligned": {"execution.checkpointing.unaligned.enabled": "true"},
    # Barriers wait long enough for some, but not all, to overtake.
    "alternating": {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "20 ms",
    },
    "local-recovery": {"execution.state-recovery.from-local": "true"},
    "s3": {"execution.checkpointing.interval": "100 ms"},
}


class Pace(MapFunction):
    """Limits the pace of numbers such that barriers wait at some inputs and not at others."""

    def open(self, runtime_context):
        self.random = random.Random(os.getpid())

    def map(self, value):
        if value % 50 == 0:
            time.sleep(self.random.choice([0.001, 0.001, 0.005, 0.02]))
        return ("", 0, 0, 0, value, 0, 0, 0)


class Zero(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


class Count(KeyedProcessFunction, CheckpointedFunction):
    """Counts the numbers of its keys by split, and sometimes kills its worker."""

    def __init__(self, stage, folder="", suicides=0, seed=0, *, is_slow=False):
        self.stage = stage
        self.is_slow = is_slow
        self.folder = folder
        self.suicides = suicides
        self.seed = seed

    def initialize_state(self, context):
        self.random = random.Random(f"{self.seed} {os.getpid()}")
        if context.is_restored:
            self.die_perhaps("restore", 0.02)

    def snapshot_state(self, context):
        if self.random.random() < 0.2:
            time.sleep(self.random.random() * 0.03)
        self.die_perhaps("snapshot", 0.01)
        if self.random.random() < 0.01 and self.may_die("writing"):
            threading.Timer(self.random.random() * 0.01, die).start()

    def die_perhaps(self, moment, chance):
        if self.random.random() < chance and self.may_die(moment):
            die()

    def may_die(self, moment):
        """Return whether a kill is left; each is claimed by creating a file, which succeeds once.

        None is left while the job stops: output that sinks have committed must not be repeated.
        """
        if Path(self.folder).parent.joinpath(STOPPING).exists():
            return False
        for number in range(self.suicides):
            try:
                with Path(self.folder, str(number)).open("x") as file:
                    file.write(moment)
            except FileExistsError:
                continue
            return True
        return False

    def open(self, runtime_context):
        self.reached = {}
        self.counts = runtime_context.get_state(
            ValueStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY())
        )
        self.by_split = runtime_context.get_map_state(
            MapStateDescriptor("by split", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        if value[0]:
            yield value
            return
        number = value[4]
        if self.is_slow and number % 20 == 0:
            time.sleep(0.005)
        split = number // SPLIT
        self.reached[split] = max(number, self.reached.get(split, -1))
        if self.stage == "first":
            counts = self.counts.value() or {}
            self.count(counts, split, number, ctx)
            self.counts.update(counts)
            yield value
        else:
            self.count(self.by_split, split, number, ctx)

    def count(self, counts, split, number, ctx):
        """Add a number to the figures of its split, in a dictionary or in a map state."""
        if not any(counts):
            ctx.timer_service().register_event_time_timer(END_OF_TIME)
        count, total, low, high = counts.get(split) or (0, 0, number, number)
        counts[split] = (count + 1, total + number, min(low, number), max(high, number))

    def on_timer(self, timestamp, ctx):
        counts = self.counts.value() if self.stage == "first" else self.by_split
        for split, figures in sorted(counts.items()):
            reached = self.reached.get(split, -1)
            yield (self.stage, ctx.get_current_key(), split, *figures, reached)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def job(checkpoints, count, *, mode="EXACTLY_ONCE", workers=WORKERS, options=None, is_jammed=False):
    """Return the stream of both counts at the end.

    Args:
        checkpoints: The directory of checkpoints.
        count: The first count, which may kill its worker.
        mode: The checkpointing mode.
        workers: The parallelism, and the number of splits.
        options: Further configuration.
        is_jammed: Whether the second count is slow, so that records wait in front of it.
    """
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "30 ms",
        "execution.checkpointing.dir": str(checkpoints),
        "execution.checkpointing.mode": mode,
        # State exceeds this size, so that there are files as well.
        "execution.checkpointing.data-inline-threshold": "200 b",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "1 ms",
        **(options or {}),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(workers)
    return (
        env.from_source(
            NumberSequenceSource(0, workers * SPLIT - 1),
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Zero()),
            "numbers",
        )
        .map(Pace(), SUMMARY)
        .key_by(lambda value: value[4] % KEYS["first"], Types.LONG())
        .process(count, SUMMARY)
        .key_by(lambda value: value[4] % KEYS["second"], Types.LONG())
        .process(Count("second", is_slow=is_jammed), SUMMARY)
    )


def options_of(kinds):
    """Return the options of all of these kinds."""
    return {key: value for kind in kinds for key, value in KINDS[kind].items()}


def children(pid="self"):
    """Return the living child processes of a process (default: this one)."""
    found = []
    with contextlib.suppress(OSError):  # it may end meanwhile, and so may its threads
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += filter(lives, map(int, (task / "children").read_text().split()))
    return found


def living_workers():
    """Return the living workers of this process's jobs, which are forked."""
    return [pid for server in children() if forks(server) for pid in children(server)]


def forks(pid):
    """Return whether workers are forked from a process."""
    with contextlib.suppress(OSError):
        return b"--fork-server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def lives(pid):
    """Return whether a process lives and is not just unreaped: a kill counts once."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Progress:
    """Watches the directory of checkpoints."""

    def __init__(self, checkpoints):
        self.checkpoints = checkpoints

    def complete(self):
        return {path.parent.name for path in self.checkpoints.glob("*/chk-*/_metadata")}

    def left(self):
        """Return files of checkpoints, and their folders."""
        return sorted(self.checkpoints.rglob("*"))

    def await_checkpoint(self):
        """Wait for two new checkpoints: all tasks have run since."""
        seen = self.complete()
        new = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(new) < 2:
            new |= self.complete() - seen
            time.sleep(0.02)
            assert time.monotonic() < deadline, f"no checkpoint since {sorted(seen)}"

    def stop(self, client, savepoints):
        """Drain the job; a worker may still be killing itself."""
        while True:
            try:
                return client.stop_with_savepoint(True, str(savepoints)).result()
            except CheckpointError as error:
                print(f"once more: {error}", file=sys.stderr)
                self.await_checkpoint()


class BucketProgress(Progress):
    """Watches the bucket of an S3 server."""

    def complete(self):
        # Requests take time of this process, which the server and the driver need.
        threading.Event().wait(0.05)
        return {key.split("/")[-2] for key in self.left() if key.endswith("/_metadata")}

    def left(self):
        return sorted(self.checkpoints.objects("checkpoints/"))


class Killer:
    """Kills workers until a number of them have died."""

    def __init__(self, arguments, progress, suicides):
        self.await_checkpoint = progress.await_checkpoint
        self.random = random.Random(arguments.seed)
        self.wanted = arguments.kills
        self.suicides = suicides
        self.kills = 0

    @property
    def dead(self):
        return self.kills + len(list(self.suicides.iterdir()))

    def run(self):
        while self.dead < self.wanted:
            moment = self.random.random()
            if moment < 0.6:
                self.await_checkpoint()
                time.sleep(self.random.random() * 0.06)
                self.kill(1)
            elif moment < 0.85:
                self.await_new(set(living_workers()))
                time.sleep(self.random.random() * 0.4)
                self.kill(1)
            else:
                self.await_checkpoint()
                self.kill(WORKERS)
        self.await_checkpoint()

    def kill(self, count):
        workers = living_workers()
        self.random.shuffle(workers)
        for pid in workers[:count]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.kills += 1

    def await_new(self, before):
        """Kill a worker, and wait for its replacement."""
        self.kill(1)
        deadline = time.monotonic() + PATIENCE_S
        while not set(living_workers()) - before:
            time.sleep(0.02)
            assert time.monotonic() < deadline, "no worker takes the place of one that died"


class Restarts(logging.Handler):
    """Counts the restarts that the job master reports."""

    count = 0

    def emit(self, record):
        self.count += "subtasks restart in" in record.getMessage()


def check(results, is_exact, workers=WORKERS):
    """Compare the counts with those of all numbers up to the last of each split.

    With at-least-once the last number is that of the attempt that was stopped.  A subtask that took
    its snapshot late has counted more numbers; the others have not seen these if the last attempt
    was stopped before it reached them again.
    """
    numbers = 0
    for stage, keys in KEYS.items():
        of_stage = [row[1:] for row in results if row[0] == stage]
        last = {row[:2]: row for row in of_stage}
        # With at-least-once a failed stop may have emitted keys, which are then emitted again.
        assert not is_exact or len(last) == len(of_stage), "a key was emitted twice"
        of_stage = list(last.values())
        for split in range(workers):
            rows = [row for row in of_stage if row[1] == split]
            low = min(row[4] for row in rows)
            high = max(row[5 if is_exact else 6] for row in rows)
            assert low == split * SPLIT, f"{stage}: the first numbers of split {split} are missing"
            for key, _, count, total, *_ in rows:
                first = low + (key - low) % keys
                wanted = range(first, high + 1, keys)
                model = (len(wanted), sum(wanted))
                if is_exact:
                    assert (count, total) == model, (stage, split, key, count, total, model)
                else:
                    assert count >= model[0], (stage, split, key, count, model)
                    assert total >= model[1], (stage, split, key, total, model)
            numbers += high - low + 1
    return numbers


def is_probe(path):
    """Return whether a file is Python's probe of a writable folder, left by a kill."""
    return path.is_file() and re.fullmatch("[a-z0-9_]{8}", path.name) and path.stat().st_size <= 4


def run(arguments, folder, stack):
    suicides, temporary = (folder / name for name in ("deaths", "tmp"))
    for path in (suicides, temporary):
        path.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    options = options_of(arguments.kind)
    checkpoints = folder / "checkpoints"
    progress = Progress(checkpoints)
    if "changelog" in arguments.kind:
        options["state.changelog.dstl.dfs.base-path"] = str(folder / "checkpoints")
    if "s3" in arguments.kind:
        # Imported here: its packages are for tests, and Spark's executors read this module.
        from support.s3_server import BUCKET, s3_server

        server = stack.enter_context(s3_server())
        options.update(server.options)
        checkpoints, progress = f"s3://{BUCKET}/checkpoints", BucketProgress(server)
    restarts = Restarts()
    logging.getLogger("penstock").addHandler(restarts)
    killer = Killer(arguments, progress, suicides)
    started = time.monotonic()
    share = arguments.kills // 4 if arguments.suicides is None else arguments.suicides
    is_jammed = not {"unaligned", "alternating"}.isdisjoint(arguments.kind)
    stream = job(
        checkpoints,
        Count("first", str(suicides), share, arguments.seed),
        mode=arguments.mode,
        options=options,
        is_jammed=is_jammed,
    )
    with stream.execute_and_collect("chaos") as results:
        client = results.get_job_client()
        killer.run()
        (folder / STOPPING).touch()
        progress.stop(client, folder / "savepoints")
        rows = [tuple(row) for row in results]
    numbers = check(rows, arguments.mode == "EXACTLY_ONCE")
    assert not children(), "a process was left"
    left = [path for path in temporary.iterdir() if not is_probe(path)]
    assert not left, f"temporary files were left: {left}"
    left = progress.left()
    assert not left, f"files of checkpoints were left: {left}"
    assert restarts.count <= killer.dead + 2, f"{restarts.count} restarts, {killer.dead} deaths"
    moments = sorted(path.read_text() for path in suicides.iterdir())
    print(
        f"{killer.dead} workers died ({killer.kills} killed, the others in "
        f"{', '.join(f'{moments.count(m)} {m}' for m in sorted(set(moments)))}), "
        f"{restarts.count} restarts, {numbers} numbers counted, "
        f"{time.monotonic() - started:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--suicides", type=int, help="how many of them by their own hand at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=["EXACTLY_ONCE", "AT_LEAST_ONCE"], default="EXACTLY_ONCE")
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        run(arguments, Path(folder), stack)


if __name__ == "__main__":
    main()
