"""Gates that let the records of a job in this process pass a few at a time."""

import threading

from penstock.datastream import MapFunction
from penstock.errors import CheckpointError


class Gate:
    """Lets records of jobs in this process pass, a given number at a time, and stores them."""

    def __init__(self):
        self.seen = []
        self._permits = 0
        self._news = threading.Condition()

    def let(self, count):
        with self._news:
            self._permits = count
            self._news.notify_all()

    def wait_for(self, count):
        with self._news:
            assert self._news.wait_for(lambda: len(self.seen) >= count, 60), len(self.seen)

    def let_more(self, count):
        """Let more records pass after a moment, once all earlier ones have passed."""
        with self._news:
            self._news.wait_for(lambda: False, 0.005)
            if self._permits == 0:
                self.let(count)

    def pass_through(self, value):
        with self._news:
            self._news.wait_for(lambda: self._permits > 0)
            self._permits -= 1
            self.seen.append(value)
            self._news.notify_all()


GATES = {}


class Gated(MapFunction):
    """Passes records through the gate with a name."""

    def __init__(self, name):
        self.name = name

    def map(self, value):
        GATES[self.name].pass_through(value)
        return value


def stopped(job, gate, folder):
    """Stop a job whose records pass a few at a time; return the savepoint."""
    while True:
        savepoint = job.stop_with_savepoint(False, folder)
        turns = 0
        while not savepoint.done():
            # The request fails immediately while some tasks do not run yet.
            turns += 1
            gate.let_more(30 if turns > 10 else 0)
        try:
            return savepoint.result()
        except CheckpointError as error:
            if "not all tasks" not in str(error):
                raise
