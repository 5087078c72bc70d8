"""Messages of TaskExecutors: the table names each message's owner, and who may send it when.

Method: a router whose main thread runs posted calls at once, with owners that record their calls.
"""

import inspect
from types import SimpleNamespace
from typing import get_args

import pytest
from penstock.jobmaster.worker_message_routes import WorkerMessageRoutes
from penstock.jobmaster.workers.message_router import MessageRouter, Route, Thread
from penstock.rpc import messages


class Posted:
    """Stands in for the main thread."""

    def __init__(self):
        self.actions = []

    def post(self, action):
        self.actions.append(action)


class Owner:
    """A part of the driver; records its calls."""

    def __init__(self, calls):
        self.calls = calls

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


class Worker:
    """A connection without a socket."""

    def __init__(self, executor=None):
        self.executor = self.gateway = executor
        self.executor_id = "" if executor is None else executor.executor_id
        self.closed = []
        self.sent = []
        self.connection = SimpleNamespace(close=self.closed.append, send=self.sent.append)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def executors():
    return {"e": SimpleNamespace(executor_id="e")}


@pytest.fixture
def routes(calls, executors):
    resources = Owner(calls)
    resources.executors = executors

    def with_job(job_id, action):
        if job_id != b"job":
            return False
        action(Owner(calls))
        return True

    owner = Owner(calls)
    lost = lambda executor, reason: calls.append(("lost", executor, reason))  # noqa: E731
    return WorkerMessageRoutes(owner, owner, owner, owner, resources, lost, with_job).table()


@pytest.fixture
def router(routes, executors):
    made = MessageRouter(routes, Posted(), executors)
    made.posted = made._main_thread.actions
    return made


def test_each_message_to_the_driver_has_one_route(routes):
    kinds = [route.message for route in routes]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(get_args(messages.ToDriver))


def test_owners_are_classes_of_the_driver_and_no_route_names_another(routes):
    for route in routes:
        assert inspect.isclass(route.owner)
        assert route.owner.__module__.split(".")[1] in ("jobmaster", "metrics")


def test_logs_do_not_wait_for_the_main_thread(router, calls):
    logs = messages.LogRecords("e", (), 0)
    freed = messages.SlotFreed(0, b"a")
    worker = Worker(router._registered["e"])
    router.received(worker, [freed, logs, freed])
    assert calls == [("received", logs)]
    [action] = router.posted
    action()
    assert calls[1:] == [("slot_freed", "e", b"a")] * 2


def test_a_stranger_says_nothing_but_who_it_is(router, calls):
    worker = Worker()
    router.handle(worker, messages.SlotFreed(0, b"a"))
    assert (worker.closed, calls) == (["not registered"], [])


def test_a_worker_that_is_declared_lost_is_not_heard(router, calls):
    worker = Worker(SimpleNamespace(executor_id="e"))
    router.handle(worker, messages.SlotFreed(0, b"a"))
    assert (worker.closed, calls) == ([], [])


def test_slots_for_a_job_that_has_ended_are_given_back(router, calls):
    worker = Worker(router._registered["e"])
    offers = (messages.SlotOffer(0, b"a", 8), messages.SlotOffer(1, b"b", 8))
    router.handle(worker, messages.OfferSlots(b"another", "h", 1, offers))
    assert [message.allocation_id for message in worker.sent] == [b"a", b"b"]
    assert calls == []
    router.handle(worker, messages.OfferSlots(b"job", "h", 1, offers))
    assert [call[0] for call in calls] == ["slots_offered"]


def test_an_unknown_message_is_a_defect():
    route = Route(messages.SlotFreed, Owner, Thread.MAIN, lambda *_: None)
    router = MessageRouter([route], Posted(), {})
    with pytest.raises(KeyError):
        router.received(Worker(), [messages.FatalError("no")])
