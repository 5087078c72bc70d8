"""A job that writes numbers to a lake, whose workers are killed in each phase of a commit."""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors import Committer
from penstock.datastream.connectors.data_generator import (
    DataGeneratorSource,
    RateLimiterStrategy,
)

from recovery.programs import environment

NUMBERS = range(3000)
MOMENTS = ["before commit", "after commit"]
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])


class FailingCommitter(Committer):
    """Kills its worker before a commit, and after one that the job does not know of."""

    def __init__(self, committer, fate):
        self.committer = committer
        self.fate = fate
        self.commits = 0

    def commit(self, requests):
        self.commits += 1
        if self.commits == 2:
            self.fate.strike("before commit")
        self.committer.commit(requests)
        if self.commits == 3:
            self.fate.strike("after commit")


def write_numbers(sink):
    """Write each number to a sink, in several commits."""
    env = environment({})
    source = DataGeneratorSource(
        lambda number: (number,),
        len(NUMBERS),
        RateLimiterStrategy.per_checkpoint(300),
        Types.TUPLE([Types.LONG()]),
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    env.execute()
