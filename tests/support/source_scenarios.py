"""Jobs in the process of the test whose source has the numbers 0 to ``count`` - 1.

``make(env)`` gives them as a stream, each time of a new source.
"""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from penstock.common import Types
from penstock.datastream import MapFunction
from penstock.datastream.connectors.discard import DiscardingSink
from support.gates import GATES, Gate, Gated, stopped
from support.sink_scenarios import FailsOnce, environment


def once_at_another_parallelism(make, folder, count, *, parallelism=2, ends=True, **options):
    """A job is stopped with a savepoint and goes on from it: each number once.

    A source that does not end by itself is cancelled when the number of elements is reached.
    """

    def started(gate, parallelism, **more):
        GATES[gate] = Gate()
        env = environment(parallelism, **options, **more)
        make(env).map(Gated(gate), Types.LONG()).sink_to(DiscardingSink())
        return env.execute_async(), GATES[gate]

    job, first = started("first", parallelism)
    # So few that no subtask comes to its end, even if it gets them all.
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
    """A job fails behind its second checkpoint and goes on: each number once in its results.

    At least once, if it is not `exact`.  They are read while it runs, as they come when a
    checkpoint holds them.
    """
    GATES["failing"] = gate = Gate()
    gate.complete, gate.has_failed = 0, False
    env = environment(parallelism, **{"execution.checkpointing.interval": "20 ms"})
    stream = make(env).map(FailsOnce("failing"), Types.LONG())
    with stream.execute_and_collect() as results, ThreadPoolExecutor(1) as pool:
        found = pool.submit(until_all, results, count)
        while not gate.has_failed:
            if found.done():
                pytest.fail(f"the job ended before it failed: {found.exception()}")
            # Some come before there are checkpoints, and few later, so that there are enough.
            gate.let_more(20 if gate.complete >= 2 or len(gate.seen) < count // 4 else 10)
        gate.let(2 * count)
        numbers = found.result()
        assert sorted(numbers if exact else set(numbers)) == list(range(count))


class KillsOnce(MapFunction):
    """Kills its worker at a number, once."""

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
    """A worker is killed in the middle of the elements: each number once in the job's results."""
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
    """What comes until there are so many different numbers."""
    found, different = [], set()
    for number in results:
        found.append(number)
        different.add(number)
        if len(different) == count:
            break
    return found
