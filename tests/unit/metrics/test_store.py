"""MetricStore: the last report of each subtask and worker."""

from penstock.graph.ids import ExecutionAttemptID
from penstock.metrics.store import MetricStore
from penstock.metrics.values import MetricValues
from penstock.rpc.messages import TaskMetrics

JOB, VERTEX = b"j" * 16, b"v" * 16


def report(store, subtask, attempt, count, operators=None):
    attempt_id = ExecutionAttemptID(JOB, VERTEX, subtask, attempt).to_bytes()
    values = MetricValues(counters={"numRecordsIn": count})
    store.task_reported("w", TaskMetrics(JOB, attempt_id, values, operators or {}))


def test_late_words_of_an_older_attempt_are_dropped():
    store = MetricStore()
    report(store, 0, 1, 5)
    report(store, 0, 0, 99)
    report(store, 1, 0, 7)
    found = store.subtasks(JOB, VERTEX)
    assert {i: (m.attempt, m.task.counters["numRecordsIn"]) for i, m in found.items()} == {
        0: (1, 5),
        1: (0, 7),
    }
    report(store, 0, 1, 6)
    assert store.subtasks(JOB, VERTEX)[0].task.counters["numRecordsIn"] == 6
    assert store.subtasks(JOB, b"x" * 16) == store.subtasks(b"x" * 16, VERTEX) == {}


def test_names_of_operators_come_first_and_have_no_separators():
    store = MetricStore()
    operators = {"Sink: Print to Std. Out": MetricValues(gauges={"level": 1, "a,b c": 2})}
    report(store, 0, 0, 5, operators)
    assert store.subtasks(JOB, VERTEX)[0].flat() == {
        "numRecordsIn": 5,
        "Sink__Print_to_Std__Out.level": 1,
        "Sink__Print_to_Std__Out.a_b c": 2,
    }


def test_a_lost_worker_says_nothing_any_more():
    store = MetricStore()
    store.worker_reported("w", MetricValues(gauges={"a": 1}))
    assert list(store.workers()) == ["w"]
    store.worker_lost("w")
    store.worker_lost("w")
    assert store.workers() == {}
