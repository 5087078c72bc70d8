"""Metrics of a task's start, its mailbox and its checkpoints."""

from types import SimpleNamespace

import pytest
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
from penstock.taskexecutor.task.mailbox import PINGS, Mailbox
from penstock.taskexecutor.task.task_metrics import (
    Initialization,
    publish_checkpoint_metrics,
    publish_mailbox_metrics,
)


def test_the_initialization_takes_until_the_task_runs():
    now_ms, metrics = 0, {}
    initialization = Initialization(metrics, lambda: now_ms * 1_000_000)
    now_ms = 20
    assert metrics["initializationTime"]() == 20
    now_ms = 30
    initialization.end()
    now_ms = 100
    assert metrics["initializationTime"]() == 30


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(ms=0)
    monkeypatch.setattr(
        "penstock.taskexecutor.task.mailbox.time.monotonic_ns", lambda: now.ms * 1_000_000
    )
    return now


def test_a_mailbox_tells_its_mails_and_how_long_they_waited(clock):
    """Reading the latency sends a mail that is measured; only one at a time."""
    mailbox, metrics = Mailbox(lambda: None), {}
    publish_mailbox_metrics(metrics, mailbox)
    latency = metrics["mailboxLatencyMs"]
    assert latency.recent_values() == []
    assert metrics["mailboxQueueSize"]() == 1
    clock.ms = 40
    assert latency.recent_values() == []
    assert metrics["mailboxQueueSize"]() == 1
    mailbox.execute(lambda: None, PINGS)
    clock.ms = 50
    mailbox.run_pending()
    assert latency.recent_values() == [50]
    assert (latency.get_count(), metrics["mailboxMailsPerSecond"].get_count()) == (1, 2)
    mailbox.close()
    assert latency.recent_values() == [50]


def test_a_checkpoint_tells_how_its_barriers_came():
    """While barriers are awaited, the present wait is reported."""
    checkpoints = SimpleNamespace(
        last_figures=AlignmentFigures(alignment_ms=1.5, start_delay_ms=20), alignment_ms=3.0
    )
    metrics = {}
    publish_checkpoint_metrics(metrics, checkpoints)
    assert metrics["checkpointStartDelayNanos"]() == 20_000_000
    assert metrics["checkpointAlignmentTime"]() == 3_000_000
