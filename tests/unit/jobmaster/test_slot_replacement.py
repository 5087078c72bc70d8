"""Slots with too few network buffers are replaced, when all slots of a worker are free.

A worker replaces the job's network, whose size is fixed, when none of its slots uses it.
"""

from types import SimpleNamespace

import pytest
from penstock import __version__
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.jobmaster.workers.resource_manager import ResourceManager
from penstock.rpc.messages import FreeSlot, RegisterTaskExecutor, RequestSlot
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds
from support.graphs import word_count
from unit.jobmaster.scheduler_driver import Driver, only
from unit.jobmaster.test_adaptive_scheduler import Adaptive

JOB = b"j" * 16
SMALL, LARGE = NetworkBufferNeeds(1, 2, 3), NetworkBufferNeeds(10, 20, 30)
S = ExecutionState


class Workers:
    """A ResourceManager whose only worker has two slots."""

    def __init__(self):
        self.sent, self.started = [], []
        host = SimpleNamespace(places=lambda: None, start=self.started.extend)
        self.resources = ResourceManager(host, 2, lambda *_: {}, (1, 2), lambda *_: None)
        self.declare(2, SMALL)
        [spec] = self.started
        hello = RegisterTaskExecutor(spec.executor_id, 1, "h", (JOB,), 2, 1, __version__)
        self.worker = self.resources.register(hello, SimpleNamespace(send=self.sent.append))
        for request in self.requests():
            self.resources.slot_offered(spec.executor_id, request.allocation_id, ("h", 1))

    def declare(self, missing, needs):
        self.resources.declare(JOB, missing, None, needs)

    def requests(self):
        """Return the requests since the last call."""
        found = [message for message in self.sent if isinstance(message, RequestSlot)]
        self.sent.clear()
        return found


def test_a_request_contains_the_needs_of_a_slot():
    workers = Workers()
    workers.declare(3, LARGE)
    other = workers.started[-1]
    hello = RegisterTaskExecutor(other.executor_id, 1, "h", (JOB,), 2, 1, __version__)
    workers.resources.register(hello, SimpleNamespace(send=workers.sent.append))
    assert [request.network_buffers for request in workers.requests()] == [LARGE, LARGE]


def test_a_slot_is_requested_when_the_whole_worker_is_free():
    workers = Workers()
    first, second = workers.worker.allocations
    for slot in (first, second):
        workers.worker.free(slot, "too small")
    assert workers.sent == [FreeSlot(first, "too small"), FreeSlot(second, "too small")]
    workers.declare(2, LARGE)
    workers.resources.slot_freed(workers.worker.executor_id, first)
    assert workers.requests() == []
    workers.resources.slot_freed(workers.worker.executor_id, second)
    assert [request.network_buffers for request in workers.requests()] == [LARGE, LARGE]
    assert len(workers.started) == 1, "no other worker is started meanwhile"


def test_a_slot_that_was_freed_already_holds_up_nothing():
    workers = Workers()
    first, second = workers.worker.allocations
    workers.resources.slot_freed(workers.worker.executor_id, first)
    workers.worker.free(first, "a late message")
    workers.declare(1, SMALL)
    assert [request.slot for request in workers.requests()] == [0]
    assert second in workers.worker.allocations


@pytest.mark.parametrize("kind", [Driver, Adaptive])
def test_a_rescaled_job_replaces_the_slots_that_are_too_small(kind):
    driver = kind(word_count(parallelism=2).job_graph())
    driver.start()
    sizes = [100, 99]
    offers = [SlotOffer(b"%d" % n, "w", "h", 1, n, size) for n, size in enumerate(sizes)]
    driver.act("slots_offered", offers)
    driver.advance(60_000)
    driver.report_all(S.INITIALIZING)
    driver.report_all(S.RUNNING)
    driver.act("rescale", {}, network_buffers=100)
    driver.confirm_cancellations()
    assert [action.allocation_id for action in only(driver.log, a.ReleaseSlot)] == [b"1"]
    assert only(driver.log, a.RequestSlots)[-1] == a.RequestSlots(2, 1)
