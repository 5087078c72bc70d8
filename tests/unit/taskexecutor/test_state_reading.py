"""Scans of state in pages, while the state's backend moves its entries.

Method: a reading of a task whose only state is a stand-in with the entries that the test sets.
"""

import queue
from types import SimpleNamespace

import pytest
from penstock.rpc.inspection_messages import ReadState
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.worker.inspection import Inspector
from support.patience import PATIENCE_S

OPERATOR, ATTEMPT = b"o" * 16, b"a" * 16


class Contents(dict):
    namespace = None


class OneTask:
    """A worker with a task that has one keyed state, and the answers of its inspector."""

    def __init__(self):
        self.contents = Contents((key, key * 10) for key in range(10))
        table = SimpleNamespace(kind="value", namespaces=lambda: [self.contents])
        context = SimpleNamespace(
            config=SimpleNamespace(id=OPERATOR),
            is_keyed=True,
            keyed_state=SimpleNamespace(tables={"sum": table}, write_back=lambda: None),
        )
        chain = SimpleNamespace(contexts=[context])
        task = SimpleNamespace(
            descriptor=SimpleNamespace(attempt_id=ATTEMPT),
            look_up=lambda reading: reading.run(chain),
        )
        self.answers = queue.Queue()
        self.inspector = Inspector(lambda: [task], self.answers.put)

    def page(self, position=0, scan=0, limit=4):
        request = ReadState(
            1, ATTEMPT, (OPERATOR,), "sum", None, b"", position, scan, limit, 10_000
        )
        self.inspector.inspect(request)
        return self.answers.get(timeout=PATIENCE_S)

    def rows(self, answer):
        serializer = TypeSerializer()
        return [row[0] for chunk in answer.entries for row in serializer.deserialize(chunk)]


@pytest.fixture
def task():
    made = OneTask()
    yield made
    made.inspector.close()


def test_entries_that_move_between_pages_are_read_once(task):
    first = task.page()
    assert task.rows(first) == [0, 1, 2, 3]
    assert not first.is_at_end
    moved = dict(reversed(task.contents.items()))
    task.contents.clear()
    task.contents.update(moved)
    del task.contents[5]
    second = task.page(first.position, first.scan)
    assert task.rows(second) == [4, 6, 7, 8]
    assert task.rows(task.page(first.position, first.scan)) == [4, 6, 7, 8], "the same page again"
    last = task.page(second.position, second.scan)
    assert task.rows(last) == [9]
    assert (last.is_at_end, last.scan) == (True, 0)


def test_a_scan_that_is_not_known_here_is_begun_anew(task):
    first = task.page()
    task.inspector.close()
    assert "start the scan again" in task.page(first.position, first.scan).error
