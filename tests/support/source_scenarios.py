"""Jobs in the test's process whose source emits the numbers 0 to ``count`` - 1.

``make(env)`` returns the stream of a new source at each call.
"""

import os
import signal
import threading
from pathlib import Path

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.connectors.discard import DiscardingSink
from support.gates import GATES, Gate, Gated, stopped
from support.patience import PATIENCE_S
from support.sink_scenarios import FailsOnce, environment, failing_after

#: Fewer records than one split has.
FEW = 8


class Number(TimestampAssigner):
    """Returns the number of a source's record: the record itself, or its field ``n``."""

    def extract_timestamp(self, value, record_timestamp):
        return int(getattr(value, "n", value))


def once_at_another_parallelism(make, folder, count, *, parallelism=2, ends=True, **options):
    """Stop a job with a savepoint and continue it: each number is emitted once.

    An endless source is cancelled when all numbers have arrived.
    """

    def started(gate, parallelism, **more):
        GATES[gate] = Gate()
        env = environment(parallelism, **options, **more)
        make(env).map(Gated(gate), Types.LONG()).sink_to(DiscardingSink())
        return env.execute_async(), GATES[gate]

    job, first = started("first", parallelism)
    # So few that no subtask reaches its end, even if it reads all of them.
    first.let(count // 10)
    first.wait_for(count // 10)
    path = stopped(job, first, str(folder / "savepoints"))
    second_parallelism = parallelism if parallelism == 1 else parallelism + 1
    start = {"execution.state-recovery.path": path}
    job, second = started("second", second_parallelism, **start)
    second.let(count)
    second.wait_for(count - len(first.seen))
    if not ends:
        job.cancel().result()
    else:
        job.get_job_execution_result().result()
    assert sorted(first.seen + second.seen) == list(range(count))


def once_after_a_failure(make, count, *, parallelism=2, exact=True):
    """Let a job fail after its second checkpoint and continue: each number is in its results once.

    At least once, if not `exact`.  The results are read while the job runs: they become available
    when a checkpoint includes them.
    """
    gate = failing_after(count // 4)
    env = environment(parallelism, **{"execution.checkpointing.interval": "20 ms"})
    stream = make(env).map(FailsOnce("failing"), Types.LONG())
    with stream.execute_and_collect() as results:
        numbers = until_all(results, count)
    assert gate.has_failed
    assert sorted(numbers if exact else set(numbers)) == list(range(count))


class SlowSubtask(MapFunction):
    """Gates one subtask's records, and those of the other subtasks after their first one."""

    def __init__(self, gate, slow=0):
        self.gate, self.slow = gate, slow

    def open(self, runtime_context):
        self.is_slow = runtime_context.get_index_of_this_subtask() == self.slow

    def map(self, value):
        gate = GATES[self.gate]
        if self.is_slow:
            gate.pass_through(value)
        elif not gate.seen:
            gate.wait_for(1)
        return value

    def close(self):
        if not self.is_slow:
            GATES[self.gate].others_ended.set()


class FiresAtEach(KeyedProcessFunction):
    """Stores the progress of event time in a gate: the numbers whose timers have fired."""

    def __init__(self, gate):
        self.gate = gate

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        GATES[self.gate].pass_through(timestamp)
        return ()


def _followed(name, stream):
    """Record in a gate the progress of a stream's event time."""
    GATES[name] = gate = Gate()
    gate.let(10**9)
    fired = stream.key_by(lambda _: 0, Types.INT()).process(FiresAtEach(name), Types.LONG())
    fired.set_parallelism(1).sink_to(DiscardingSink())
    return gate


def a_slow_split_holds_the_watermark(make, count):
    """Check that event time waits for a slow split, though the other subtask has ended.

    ``make(env, strategy)`` returns the numbers; each split has some in ascending order.
    """
    GATES["slow"] = slow = Gate()
    slow.others_ended = threading.Event()
    env = environment(2, **{"pipeline.auto-watermark-interval": "1 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Number())
    fired = _followed("fired", make(env, strategy).map(SlowSubtask("slow"), Types.LONG()))
    job = env.execute_async()
    slow.let(10)
    slow.wait_for(10)
    assert slow.others_ended.wait(PATIENCE_S)
    # Larger numbers of the other subtask wait, too, until the slow one has reported its progress
    # once.
    assert max(fired.seen, default=-1) <= slow.seen[-1]
    while not fired.seen or fired.seen[-1] < slow.seen[9]:
        assert len(slow.seen) < count // FEW, "event time does not follow the slow split"
        slow.let_more(1)
        assert max(fired.seen, default=-1) <= slow.seen[-1] + 1
    slow.let(count)
    job.get_job_execution_result().result()
    assert sorted(fired.seen) == list(range(count))


def an_idle_subtask_does_not_hold_the_watermark(make, count):
    """Check that event time advances though one subtask of an endless source is idle."""
    env = environment(2, **{"pipeline.auto-watermark-interval": "1 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(50))
    fired = _followed("fired", make(env, strategy.with_timestamp_assigner(Number())))
    job = env.execute_async()
    fired.wait_for(count - 1)
    job.cancel().result()
    # Nothing shows that the last split has ended.
    assert sorted(fired.seen) == list(range(count - 1))


class KillsOnce(MapFunction):
    """Kills its worker once, at a given number."""

    def __init__(self, mark, number):
        self.mark, self.number = mark, number

    def map(self, value):
        if value == self.number:
            try:
                Path(self.mark).touch(exist_ok=False)
            except FileExistsError:
                return value
            os.kill(os.getpid(), signal.SIGKILL)
        return value


def once_after_a_kill(make, folder, count, *, parallelism=2, **options):
    """Kill a worker in the middle of the records: each number is in the job's results once."""
    mark = folder / "killed"
    env = environment(
        parallelism,
        **{
            "execution.target": "local",
            "execution.checkpointing.interval": "20 ms",
            "taskmanager.numberOfTaskSlots": str(parallelism),
            **options,
        },
    )
    stream = make(env).map(KillsOnce(str(mark), count // 2), Types.LONG())
    with stream.execute_and_collect() as results:
        assert sorted(until_all(results, count)) == list(range(count))
    assert mark.exists()


def until_all(results, count):
    """Read results until they contain a given number of different numbers; return them."""
    found, different = [], set()
    for number in results:
        found.append(number)
        different.add(number)
        if len(different) == count:
            break
    return found
