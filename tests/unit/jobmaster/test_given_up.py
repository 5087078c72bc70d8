"""A request to the main thread or a worker that is abandoned does not harm the job."""

from types import SimpleNamespace

import pytest
from penstock.jobmaster.main_thread import MainThread
from penstock.jobmaster.workers.inspections import InspectionError, Inspections
from penstock.rpc.inspection_messages import DumpThreads, Inspected
from support.patience import PATIENCE_S


@pytest.fixture
def main_thread():
    errors = []
    thread = MainThread("main thread of a test", errors.append)
    yield thread
    thread.close()
    assert errors == []


def test_an_action_that_nobody_waits_for_any_more_is_not_run(main_thread):
    ran = []
    user = main_thread.user("calls of a test", 8)
    given_up = user.submit(lambda: ran.append("given up"))
    assert given_up.cancel()
    kept = user.submit(lambda: "kept")
    main_thread.start()
    assert kept.result(PATIENCE_S) == "kept"
    assert ran == []


class FakeConnection:
    def __init__(self, is_open):
        self.is_open = is_open
        self.sent = []

    def send(self, message):
        self.sent.append(message)
        return self.is_open


def test_answers_reach_who_asked_and_nobody_else(main_thread):
    connections = {"w1": FakeConnection(True), "w2": FakeConnection(False)}
    executors = {name: SimpleNamespace(connection=one) for name, one in connections.items()}
    inspections = Inspections(
        main_thread.user("looks of a test", 16), SimpleNamespace(executors=executors)
    )
    main_thread.start()
    answered = inspections.ask("w1", DumpThreads)
    given_up = inspections.ask("w1", DumpThreads)
    failed = inspections.ask("w1", DumpThreads)
    lost = inspections.ask("w1", DumpThreads)
    with pytest.raises(InspectionError, match="is gone"):
        inspections.ask("w2", DumpThreads).result(PATIENCE_S)
    with pytest.raises(InspectionError, match="is gone"):
        inspections.ask("w3", DumpThreads).result(PATIENCE_S)
    first, second, third, _ = (message.request_id for message in connections["w1"].sent)
    given_up.cancel()
    inspections.answered("w2", Inspected(first))  # not requested
    assert not answered.done()
    inspections.answered("w1", Inspected(first))
    inspections.answered("w1", Inspected(second))
    inspections.answered("w1", Inspected(first))  # stated twice
    inspections.answered("w1", Inspected(third, error="somebody else looks"))
    assert answered.result(0).request_id == first
    with pytest.raises(InspectionError, match="somebody else looks"):
        failed.result(0)
    inspections.worker_lost("w1")
    with pytest.raises(InspectionError, match="is lost"):
        lost.result(0)
