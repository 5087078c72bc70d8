"""Decisions of the coordinator's parts: the next request, counted failures, deletions.

Goal: the scenarios of `CheckpointRequestDeciderTest`, `CheckpointFailureManagerTest` and
`CheckpointPropertiesTest` (internals M52, M53, M62).
"""

import dataclasses

import pytest
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.jobmaster.checkpointing.failure_manager import CheckpointFailureManager
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.checkpointing.request_decider import (
    MAX_QUEUED_REQUESTS,
    CheckpointRequest,
    CheckpointRequestDecider,
)
from penstock.network.events import SavepointFormat, SnapshotKind

CHECKPOINT = CheckpointProperties.checkpoint(Retention.NO_EXTERNALIZED_CHECKPOINTS)
SAVEPOINT = CheckpointProperties.savepoint(SnapshotKind.SAVEPOINT, SavepointFormat.CANONICAL, None)
UNFORCED = dataclasses.replace(SAVEPOINT, forced=False)


def decider(*requests, max_concurrent=1, min_pause_ms=0):
    made = CheckpointRequestDecider(max_concurrent, min_pause_ms)
    for request in requests:
        assert made.add(request) is None
    return made


def chosen(made, pending=0, cleaning=0, last_ms=None, now_ms=0):
    return made.choose(
        pending=pending, cleaning=cleaning, last_completion_ms=last_ms, now_ms=now_ms
    )


PERIODIC = CheckpointRequest(1, 0, CHECKPOINT, is_periodic=True)
OF_A_USER = CheckpointRequest(2, 5, CHECKPOINT)
LATER = CheckpointRequest(3, 6, CHECKPOINT)
FORCED = CheckpointRequest(4, 7, dataclasses.replace(CHECKPOINT, forced=True))
WISH = CheckpointRequest(5, 8, UNFORCED)
FIRST = CheckpointRequest(6, 9, SAVEPOINT)


def test_savepoints_then_forced_ones_then_those_of_users_then_the_oldest():
    in_order = [FIRST, WISH, FORCED, OF_A_USER, LATER, PERIODIC]
    made = decider(*reversed(in_order))
    assert [chosen(made).start for _ in in_order] == in_order
    assert chosen(made).start is None


def test_a_full_queue_drops_its_last_request_or_the_new_one():
    requests = [CheckpointRequest(n, n, CHECKPOINT) for n in range(MAX_QUEUED_REQUESTS)]
    made = decider(*requests)
    one_more = CheckpointRequest(9999, 9999, CHECKPOINT)
    assert made.add(one_more) is one_more
    assert made.add(FIRST) is requests[-1]
    assert len(made) == MAX_QUEUED_REQUESTS
    assert chosen(made).start is FIRST


@pytest.mark.parametrize("max_concurrent", [1, 2, 5])
def test_only_what_is_forced_exceeds_the_limit(max_concurrent):
    made = decider(OF_A_USER, max_concurrent=max_concurrent)
    assert chosen(made, pending=max_concurrent).start is None
    assert made.add(FIRST) is None
    assert chosen(made, pending=max_concurrent).start is FIRST
    assert chosen(made, pending=max_concurrent - 1).start is OF_A_USER


def test_nothing_begins_while_too_many_are_being_deleted():
    made = decider(FIRST)
    assert chosen(made, cleaning=2).start is None
    assert chosen(made, cleaning=1).start is FIRST


def test_the_pause_is_for_periodic_ones():
    made = decider(PERIODIC, OF_A_USER, min_pause_ms=10)
    assert chosen(made, last_ms=100, now_ms=105).start is OF_A_USER
    refused = chosen(made, last_ms=100, now_ms=105)
    assert refused.refused == ((PERIODIC, Reason.MINIMUM_TIME_BETWEEN_CHECKPOINTS),)
    assert refused.retry_at_ms == 110
    assert made.add(PERIODIC) is None
    assert chosen(made, last_ms=100, now_ms=110).start is PERIODIC


COUNTED = {"IO_EXCEPTION", "ASYNC_EXCEPTION", "DECLINED", "EXPIRED", "FINALIZE_FAILURE"}


@pytest.mark.parametrize("reason", Reason)
def test_which_failures_count(reason):
    manager = CheckpointFailureManager(0)
    assert manager.failed(1, reason) is (reason.name in COUNTED)


def test_failures_are_counted_once_and_not_before_the_last_success():
    manager = CheckpointFailureManager(1)
    assert not manager.failed(1, Reason.EXPIRED)
    assert not manager.failed(1, Reason.IO_EXCEPTION)
    manager.succeeded(3)
    assert manager.continuous_failures == 0
    assert not manager.failed(2, Reason.EXPIRED)
    assert not manager.failed(3, Reason.EXPIRED)
    assert not manager.failed(4, Reason.EXPIRED)
    manager.succeeded(2)
    assert manager.continuous_failures == 1
    assert manager.failed(5, Reason.EXPIRED)
    assert manager.continuous_failures == 0


def test_any_number_of_failures():
    manager = CheckpointFailureManager(None)
    assert not any(manager.failed(number, Reason.EXPIRED) for number in range(1000))


@pytest.mark.parametrize(
    ("properties", "subsumed", "finished", "cancelled", "failed", "suspended"),
    [
        (CheckpointProperties.checkpoint(retention), *flags)
        for retention, flags in {
            Retention.NO_EXTERNALIZED_CHECKPOINTS: (True, True, True, True, True),
            Retention.DELETE_ON_CANCELLATION: (True, True, True, False, True),
            Retention.RETAIN_ON_CANCELLATION: (True, True, False, False, False),
        }.items()
    ]
    + [(SAVEPOINT, False, False, False, False, False)],
)
def test_when_one_is_deleted(properties, subsumed, finished, cancelled, failed, suspended):
    assert properties.discard_subsumed is subsumed
    assert properties.discard_finished is finished
    assert properties.discard_cancelled is cancelled
    assert properties.discard_failed is failed
    assert properties.discard_suspended is suspended
