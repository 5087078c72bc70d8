"""Gates that let the records of a job in this process pass a few at a time."""

import threading

from penstock.datastream import MapFunction
from penstock.errors import CheckpointError
from support.patience import PATIENCE_S

#: Seconds between two looks at a mailbox.
_LOOK_S = 0.005


class Gate:
    """Lets a number of records of jobs in this process pass at a time, and stores them.

    A record that waits holds the thread of its task, so the task takes no checkpoint.  A gate that
    opens for mail lets records pass while a mail waits for their task, however long the mail takes
    to come: just those that the source emits before its task reads the mail.  They are few, since
    each waits for a look, and a source reads its mail after 10 ms.
    """

    def __init__(self):
        self.seen = []
        self._permits = 0
        self._opens_for_mail = False
        self._news = threading.Condition()

    def let(self, count):
        with self._news:
            self._permits = count
            self._news.notify_all()

    def open_for_mail(self):
        with self._news:
            self._opens_for_mail = True
            self._news.notify_all()

    def wait_for(self, count):
        with self._news:
            assert self._news.wait_for(lambda: len(self.seen) >= count, PATIENCE_S), len(self.seen)

    def let_more(self, count):
        """Let more records pass after a moment, once all earlier ones have passed."""
        with self._news:
            self._news.wait_for(lambda: False, 0.005)
            if self._permits == 0:
                self.let(count)

    def pass_through(self, value, mailbox=None):
        """Wait until a record may pass; ``mailbox`` is that of its task."""
        with self._news:
            while not self._permits:
                self._news.wait(_LOOK_S if self._opens_for_mail else None)
                if self._opens_for_mail and mailbox.has_mail:
                    break
            self._permits = max(0, self._permits - 1)
            self.seen.append(value)
            self._news.notify_all()


GATES = {}


class Gated(MapFunction):
    """Passes records through the gate with a name.

    The source is in the same task: a mail to another one does not open the gate.
    """

    def __init__(self, name):
        self.name = name

    def open(self, runtime_context):
        # Nothing public shows that a checkpoint waits for a task.
        self.mailbox = runtime_context._operator._mailbox

    def map(self, value):
        GATES[self.name].pass_through(value, self.mailbox)
        return value


def stopped(job, gate, folder):
    """Return the savepoint of a job whose records wait at a gate.

    A few pass meanwhile: those before the savepoint's barriers.
    """
    gate.open_for_mail()
    while True:
        try:
            return job.stop_with_savepoint(False, folder).result()
        except CheckpointError as error:
            # The request fails at once while not all tasks run.
            if "not all tasks" not in str(error):
                raise
