"""A backpressured job that is cancelled, and continues with another parallelism."""

from collections import Counter

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource

from recovery.cancelling import cancel_once
from recovery.programs import KEYS, PAIR, Work, environment

TRIPLE = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])


def job(elements, options, parallelism, pause_s, padding):
    """Count elements by key behind a keyed exchange, which follows a non-keyed one."""
    env = environment(options)
    env.set_parallelism(parallelism)
    env.set_max_parallelism(16)
    text = "x" * padding
    stream = (
        env.from_source(
            NumberSequenceSource(0, elements - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        .uid("numbers")
        .map(lambda number: (number % KEYS, 1, text), TRIPLE)
        .uid("triples")
        .rebalance()
        .map(Work(pause_s), TRIPLE)
        .uid("work")
        .key_by(lambda triple: triple[0], Types.LONG())
        .map(Work(pause_s), TRIPLE)
        .uid("keyed work")
        .map(lambda triple: triple[:2], PAIR)
        .uid("pairs")
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .uid("counts")
    )
    return stream.execute_and_collect("rescaled")


def cancelled(results, folder):
    """Cancel a job after a few checkpoints; return the last one."""

    def is_fourth_complete():
        numbers = [int(path.parent.name[4:]) for path in folder.glob("*/chk-*/_metadata")]
        return max(numbers, default=0) >= 4

    cancel_once(results, is_fourth_complete, "the fourth checkpoint is complete")
    (found,) = folder.glob("*/chk-*/_metadata")
    return str(found.parent)


def last_counts(results):
    """Return the last count of each key."""
    last = Counter()
    for key, count in results:
        last[key] = max(last[key], count)
    return last
