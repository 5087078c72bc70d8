"""The end of a worker is reported once, with what both sides know about it."""

from penstock.jobmaster.workers.resource_manager import WorkerExit
from penstock.jobmaster.workers.worker_losses import EXIT_REPORT_MS, WorkerLosses

END = WorkerExit("w", 7, 3, "the log")


def test_the_connection_waits_for_the_exit():
    losses = WorkerLosses()
    assert not losses.disconnected("w", "reset", 10)
    assert losses.next_deadline_ms() == 10 + EXIT_REPORT_MS
    assert losses.exited(END, 20)
    assert losses.explained("w") == f"reset; {END}"
    assert losses.next_deadline_ms() is None


def test_the_exit_waits_for_the_connection():
    losses = WorkerLosses()
    assert not losses.exited(END, 10)
    assert losses.disconnected("w", "reset", 20)
    assert losses.explained("w", "reset") == f"reset; {END}"


def test_missing_workers_are_not_waited_for():
    losses = WorkerLosses()
    losses.disconnected("w", "reset", 0)
    losses.exited(WorkerExit("v", 8, 0, ""), 5)
    assert losses.tick(EXIT_REPORT_MS - 1) == []
    assert losses.tick(EXIT_REPORT_MS) == ["w"]
    assert losses.explained("w") == "reset"
    assert losses.next_deadline_ms() == 5 + EXIT_REPORT_MS
    assert losses.tick(5 + EXIT_REPORT_MS) == ["v"]
    assert losses.explained("v").startswith("its process ended; process 8 ended")


def test_last_words_count_more_than_the_connection():
    """The report does not wait."""
    losses = WorkerLosses()
    assert losses.explained("w", "out of memory") == "out of memory"
    assert losses.next_deadline_ms() is None


def test_workers_lost_for_another_reason_are_forgotten():
    """Such as a worker whose heartbeats stop, or that a newer incarnation replaces."""
    losses = WorkerLosses()
    losses.disconnected("w", "reset", 0)
    losses.explained("w", "a newer incarnation registered")
    assert losses.tick(10 * EXIT_REPORT_MS) == []
    assert not losses.exited(END, 20), "the newer one's connection stands"
