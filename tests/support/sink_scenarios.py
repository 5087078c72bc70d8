"""Jobs in the test's process that write the numbers 0 to `COUNT` - 1 to a place.

A place has ``write(stream)``, which returns the stream's sink, and ``read()``, which returns the
place's whole content.
"""

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointListener
from support.gates import GATES, Gate, Gated, stopped

COUNT = 3000
#: More records than any test has.
ALL = 10**9


def texts(stream):
    return stream.map(str, Types.STRING())


def environment(parallelism, **options):
    configuration = Configuration.from_dict(
        {
            "execution.target": "in-process",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "5",
            "restart-strategy.fixed-delay.delay": "1 ms",
            **options,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbers(env):
    source = NumberSequenceSource(0, COUNT - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def once_at_another_parallelism(place, folder, *, ordered):
    """Stop a job with a savepoint and continue it to its end: each record is written once.

    If a single subtask writes to an ordered sink, the records arrive in order.
    """

    def started(gate, parallelism, **options):
        GATES[gate] = Gate()
        env = environment(parallelism, **options)
        place.write(numbers(env).map(Gated(gate), Types.LONG()).uid("gate")).uid("sink")
        return env.execute_async(), GATES[gate]

    job, first = started("first", 1)
    first.let(COUNT // 10)
    first.wait_for(COUNT // 10)
    path = stopped(job, first, str(folder / "savepoints"))
    job.get_job_execution_result().result()
    passed = len(first.seen)
    assert passed < COUNT
    job, second = started("second", 2, **{"execution.state-recovery.path": path})
    second.let(COUNT)
    job.get_job_execution_result().result()
    found = place.read()
    assert sorted(found) == list(range(COUNT))
    if ordered:
        assert found[:passed] == list(range(passed))


class FailsOnce(Gated, CheckpointListener):
    """Raises once, some records after the gate has opened.

    The second notice of a complete checkpoint opens it, whichever subtasks get the notices.
    """

    def notify_checkpoint_complete(self, checkpoint_id):
        gate = GATES[self.name]
        gate.complete += 1
        if gate.complete >= 2:  # another subtask may have counted in between
            gate.let(ALL)

    def open(self, runtime_context):
        super().open(runtime_context)
        self.seen = 0

    def map(self, value):
        gate = GATES[self.name]
        gate.pass_through(value, self.mailbox)
        if gate.complete >= 2:
            self.seen += 1
            if self.seen == 100 and not gate.has_failed:
                gate.has_failed = True
                raise RuntimeError("once")
        return value


def failing_after(count):
    """Return the gate of `FailsOnce`, called "failing", at which later records wait."""
    GATES["failing"] = gate = Gate()
    gate.complete, gate.has_failed = 0, False
    gate.let(count)
    gate.open_for_mail()
    return gate


def after_a_failure(place, *, exact, ordered, interval_ms=50):
    """Let a job fail after a checkpoint and continue: each record once, or at least once."""
    gate = failing_after(COUNT // 2)
    env = environment(1, **{"execution.checkpointing.interval": f"{interval_ms} ms"})
    place.write(numbers(env).map(FailsOnce("failing"), Types.LONG()))
    env.execute()
    assert gate.has_failed
    found = place.read()
    assert sorted(set(found)) == list(range(COUNT))
    if exact:
        assert len(found) == COUNT
    if ordered:
        # Repeated records are in order, too.
        last = {number: position for position, number in enumerate(found)}
        assert sorted(last, key=last.get) == list(range(COUNT))
