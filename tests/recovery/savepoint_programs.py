"""Jobs that are stopped with a savepoint and continue from it: the programs of savepoint tests."""

import threading
import time
from collections import Counter
from itertools import chain

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import CheckpointError

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 10


class Slowly(MapFunction):
    """Forwards records more and more slowly, so that a job still runs when it is stopped.

    A subtask needs more than 100 s for its first 10,000.
    """

    def __init__(self):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        time.sleep(0.0001 + 2e-6 * self.seen)
        return value


def environment(options=None, parallelism=2):
    configuration = Configuration()
    for key, value in (options or {}).items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbers(env, elements):
    source = NumberSequenceSource(0, elements - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def counted(stream, slowly=False):
    """Count the elements of each key, as a stream of growing pairs."""
    if slowly:
        stream = stream.map(Slowly()).uid("slowly")
    return (
        stream.map(lambda number: (number % KEYS, 1), PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .uid("counts")
    )


def asked(call, *arguments):
    """Return the answer to a call for a savepoint, repeated until all tasks of the job run."""
    while True:
        try:
            return call(*arguments).result()
        except CheckpointError as error:
            if "not all tasks" not in str(error):
                raise
            threading.Event().wait(0.01)


def stopped(results, directory):
    """Stop a job that has shown a result with a savepoint; return it, and the last counts."""
    first = next(results)
    path = asked(results.get_job_client().stop_with_savepoint, False, str(directory))
    return path, last_counts(chain([first], results))


def last_counts(results):
    """Return the last count of each key."""
    last = Counter()
    for key, count in results:
        last[key] = max(last[key], count)
    return last
