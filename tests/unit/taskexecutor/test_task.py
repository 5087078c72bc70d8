"""The states of a task: every path through them, and that it always releases its resources.

Method: a fake network that counts open resources, invokables that stop at chosen points, and a
listener that records reports.
"""

import builtins
import contextlib
import importlib
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pytest
from penstock.errors import CancelTaskError
from penstock.rpc.messages import TaskFailure, TriggerCheckpoint
from penstock.rpc.task_deployment import (
    GateDescriptor,
    PartitionDescriptor,
    ProducerDescriptor,
    TaskDeploymentDescriptor,
)
from penstock.taskexecutor.task import task as task_module
from penstock.taskexecutor.task.task import Task
from penstock.taskexecutor.task.task_interrupt import InterruptibleSection
from penstock.taskexecutor.worker.memory_manager import SlotMemory
from support.patience import PATIENCE_S
from support.sessions import eventually


class FakePartition:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def finish(self) -> None:
        self.calls.append("finish")

    def wait_consumed(self, timeout_ms: int) -> bool:
        return True

    def fail(self, cause: str) -> None:
        self.calls.append(f"fail: {cause}")

    def release(self) -> None:
        self.calls.append("release")


class FakeGate:
    closed = False

    def close(self) -> None:
        self.closed = True


class FakeNetwork:
    """Counts a task's partitions and gates; may refuse gates."""

    def __init__(self, refuses_gates: bool = False) -> None:
        self.partitions: list[FakePartition] = []
        self.gates: list[FakeGate] = []
        self.channels: list[Any] = []
        self._refuses_gates = refuses_gates

    def create_result_partition(self, *arguments: object) -> FakePartition:
        self.partitions.append(FakePartition())
        return self.partitions[-1]

    def create_input_gate(self, channels: Any) -> FakeGate:
        if self._refuses_gates:
            raise OSError("no gates")
        self.channels += channels
        self.gates.append(FakeGate())
        return self.gates[-1]


class Listener:
    """Records the reports of a task."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.failure: TaskFailure | None = None
        self.accumulators: dict[str, Any] = {}
        self.messages: list[Any] = []
        self.ended = threading.Event()
        self.fatal = threading.Event()

    def task_state_changed(
        self, task: Task, state: str, failure: TaskFailure | None, accumulators: dict[str, Any]
    ) -> None:
        self.states.append(state)
        self.failure = failure
        self.accumulators = accumulators

    def task_accumulators(self, task: Task, accumulators: dict[str, Any]) -> None:
        self.accumulators = accumulators

    def task_message(self, task: Task, message: Any) -> None:
        self.messages.append(message)

    def task_ended(self, task: Task) -> None:
        self.ended.set()

    def fatal_error(self, reason: str) -> None:
        self.fatal.set()


class Invokable:
    """Runs the test's code at each point."""

    on_build: Callable[[], None] = staticmethod(lambda: None)
    on_restore: Callable[["Invokable"], None] = staticmethod(lambda self: None)
    on_invoke: Callable[["Invokable"], None] = staticmethod(lambda self: None)
    reached = threading.Event()

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.cancelled = threading.Event()
        type(self).on_build()

    def restore(self) -> None:
        type(self).on_restore(self)

    def invoke(self) -> None:
        type(self).on_invoke(self)

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.fixture
def invokable(monkeypatch: pytest.MonkeyPatch) -> type[Invokable]:
    class Fresh(Invokable):
        reached = threading.Event()

    monkeypatch.setattr(task_module, "make_invokable", lambda code, environment: Fresh(environment))
    return Fresh


DESCRIPTOR = TaskDeploymentDescriptor(
    job_id=bytes(16),
    attempt_id=bytes(40),
    vertex_id=bytes(16),
    task_name="Map",
    subtask=1,
    parallelism=4,
    max_parallelism=128,
    attempt_number=0,
    allocation_id=b"slot",
    code_id="code",
    configuration={},
    partitions=(PartitionDescriptor(b"p", 2, "PIPELINED_BOUNDED", 100),),
    gates=(
        GateDescriptor(
            0,
            (
                ProducerDescriptor(b"x", "own", "host", 1),
                ProducerDescriptor(b"y", "other", "host", 2),
            ),
            (0, 1),
        ),
    ),
)


class Setup:
    def __init__(
        self,
        network: FakeNetwork | None = None,
        listener: Listener | None = None,
        descriptor: TaskDeploymentDescriptor = DESCRIPTOR,
        **options: Any,
    ) -> None:
        self.network = network or FakeNetwork()
        self.listener = listener or Listener()
        self.task = Task(
            descriptor,
            b"code",
            self.network,  # type: ignore[arg-type]
            "own",
            lambda descriptor, name: pytest.fail("nobody collects"),
            self.listener,
            **options,
        )

    def run(self) -> "Setup":
        self.task.start()
        return self

    def end(self) -> list[str]:
        assert self.listener.ended.wait(PATIENCE_S)
        assert all(gate.closed for gate in self.network.gates)
        assert all(partition.calls[-1] == "release" for partition in self.network.partitions)
        assert self.listener.states[-1] == self.task.state
        return self.listener.states


def wait_cancelled(invokable: Invokable) -> None:
    invokable.reached.set()
    assert invokable.cancelled.wait(PATIENCE_S)
    raise CancelTaskError("woken")


def fail(invokable: Invokable) -> None:
    raise ValueError("broken")


def test_the_regular_life(invokable: type[Invokable]) -> None:
    setup = Setup().run()
    assert setup.end() == ["INITIALIZING", "RUNNING", "FINISHED"]
    assert setup.network.partitions[0].calls == ["finish", "release"]
    assert setup.network.channels == [(b"x", 0, None), (b"y", 1, ("host", 2))]


STORING = msgspec.structs.replace(
    DESCRIPTOR, partitions=(PartitionDescriptor(b"p", 2, "BLOCKING", 100),)
)


def test_the_memory_of_a_stored_output_is_free_when_the_end_is_reported(
    invokable: type[Invokable],
) -> None:
    """The next task of the slot may begin then."""
    memory = SlotMemory.of(1 << 20)
    free = []

    class Watching(Listener):
        def task_state_changed(self, task: Task, state: str, *others: Any) -> None:
            free.append((state, memory.outputs.available_bytes >> 10))

        def partition_finished(self, *what: Any) -> None:
            """Keep it."""

    setup = Setup(listener=Watching(), descriptor=STORING, memory=memory).run()
    assert setup.listener.ended.wait(PATIENCE_S)
    assert free == [("INITIALIZING", 224), ("RUNNING", 224), ("FINISHED", 256)]


def test_the_memory_of_a_stored_output_is_free_after_a_failure(
    invokable: type[Invokable],
) -> None:
    invokable.on_invoke = staticmethod(fail)
    memory = SlotMemory.of(1 << 20)
    setup = Setup(descriptor=STORING, memory=memory).run()
    assert setup.end()[-1] == "FAILED"
    assert memory.outputs.available_bytes == 256 << 10


def test_final_accumulators_come_with_the_end(invokable: type[Invokable]) -> None:
    invokable.on_invoke = lambda self: self.environment.report_accumulators({"n": 3})
    setup = Setup().run()
    setup.end()
    assert setup.listener.accumulators == {"n": 3}


@pytest.mark.parametrize("point", ["on_restore", "on_invoke"])
def test_an_exception_fails_the_task(invokable: type[Invokable], point: str) -> None:
    setattr(invokable, point, staticmethod(fail))
    setup = Setup().run()
    assert setup.end()[-1] == "FAILED"
    failure = setup.listener.failure
    assert failure is not None
    assert (failure.qualname, failure.message, failure.operator) == ("ValueError", "broken", "Map")
    assert setup.network.partitions[0].calls == [
        "fail: Map (2/4): ValueError: broken",
        "release",
    ]


def test_a_task_whose_end_cannot_be_reported_fails_in_words(invokable: type[Invokable]) -> None:
    """Otherwise the driver would wait for it for ever."""

    class Refusing(Listener):
        def task_state_changed(self, task: Task, state: str, *others: Any) -> None:
            if state == "FINISHED":
                raise SystemExit("the report is too large")
            super().task_state_changed(task, state, *others)

    setup = Setup(listener=Refusing()).run()
    assert setup.end() == ["INITIALIZING", "RUNNING", "FAILED"]
    failure = setup.listener.failure
    assert failure is not None
    assert (failure.qualname, failure.message) == ("SystemExit", "the report is too large")


def test_a_task_that_cannot_even_report_its_failure_ends_the_worker(
    invokable: type[Invokable],
) -> None:
    class Silent(Listener):
        def task_state_changed(self, task: Task, state: str, *others: Any) -> None:
            if state in ("FINISHED", "FAILED"):
                raise OSError("no connection")
            super().task_state_changed(task, state, *others)

    setup = Setup(listener=Silent()).run()
    assert setup.listener.ended.wait(PATIENCE_S)
    assert setup.listener.fatal.is_set()


def test_a_failure_while_building_the_invokable(invokable: type[Invokable]) -> None:
    invokable.on_build = staticmethod(lambda: fail(None))  # type: ignore[arg-type]
    assert Setup().run().end() == ["FAILED"]


def test_a_failure_while_setting_up_the_network(invokable: type[Invokable]) -> None:
    assert Setup(FakeNetwork(refuses_gates=True)).run().end() == ["FAILED"]


def test_code_that_cannot_be_unpickled_fails_the_task() -> None:
    setup = Setup().run()
    assert setup.end() == ["FAILED"]


def test_code_of_a_missing_module_names_it() -> None:
    environment: Any = None
    with pytest.raises(Exception, match="nowhere_to_be_found"):
        task_module.make_invokable(b"cnowhere_to_be_found\nThing\n.", environment)


def test_code_may_be_any_callable() -> None:
    made = task_module.make_invokable(cloudpickle.dumps(lambda environment: [environment]), 7)  # type: ignore[arg-type]
    assert made == [7]


@pytest.mark.parametrize("event", ["cancel", "fail"])
def test_ending_before_the_start(invokable: type[Invokable], event: str) -> None:
    setup = Setup()
    if event == "cancel":
        setup.task.cancel()
    else:
        setup.task.fail_externally(RuntimeError("lost"))
    setup.run()
    assert setup.end() == ["CANCELED" if event == "cancel" else "FAILED"]


@pytest.mark.parametrize("point", ["on_restore", "on_invoke"])
def test_cancelling(invokable: type[Invokable], point: str) -> None:
    setattr(invokable, point, staticmethod(wait_cancelled))
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    setup.task.cancel()
    assert setup.end()[-1] == "CANCELED"
    assert setup.listener.failure is None


@pytest.mark.parametrize("point", ["on_restore", "on_invoke"])
def test_failing_from_outside(invokable: type[Invokable], point: str) -> None:
    setattr(invokable, point, staticmethod(wait_cancelled))
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.fail_externally(RuntimeError("first"))
    setup.task.fail_externally(RuntimeError("second"))
    setup.task.cancel()
    assert setup.end()[-1] == "FAILED"
    assert setup.listener.failure is not None
    assert setup.listener.failure.message == "first"


def test_a_failure_after_cancellation_is_a_cancellation(invokable: type[Invokable]) -> None:
    def fail_when_cancelled(self: Invokable) -> None:
        self.reached.set()
        assert self.cancelled.wait(PATIENCE_S)
        raise ValueError("while unwinding")

    invokable.on_invoke = staticmethod(fail_when_cancelled)
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    assert setup.end()[-1] == "CANCELED"


def return_when_cancelled(self: Invokable) -> None:
    self.reached.set()
    assert self.cancelled.wait(PATIENCE_S)


def test_returning_after_cancellation_is_a_cancellation(invokable: type[Invokable]) -> None:
    invokable.on_invoke = staticmethod(return_when_cancelled)
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    assert setup.end()[-1] == "CANCELED"


def test_a_trigger_before_the_start_is_declined_and_one_after_the_end_dropped(
    invokable: type[Invokable],
) -> None:
    """The driver knows of the end: a savepoint that stops the job continues without the task."""
    trigger = TriggerCheckpoint((bytes(40),), 7, 0, kind=2, alignment=1, aligned_timeout_ms=0)
    setup = Setup()
    setup.task.handle_checkpoint_message(trigger)
    assert [m.reason for m in setup.listener.messages] == ["DECLINED_TASK_NOT_READY"]
    setup.run().end()
    setup.task.handle_checkpoint_message(trigger)
    assert len(setup.listener.messages) == 1


def test_a_task_that_cannot_be_notified_of_a_checkpoint_fails_itself(
    invokable: type[Invokable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notifying thread must not fail, as it may belong to another task."""

    def cannot_be_woken(*_: Any) -> None:
        raise OSError("no wake-up")

    monkeypatch.setattr(invokable, "handle_checkpoint_message", cannot_be_woken, raising=False)
    invokable.on_invoke = staticmethod(return_when_cancelled)
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    trigger = TriggerCheckpoint((bytes(40),), 7, 0, kind=2, alignment=1, aligned_timeout_ms=0)
    assert not setup.task.handle_checkpoint_message(trigger)
    assert setup.end()[-1] == "FAILED"


def test_cancelling_an_ended_task_changes_nothing(invokable: type[Invokable]) -> None:
    invokable.on_invoke = staticmethod(fail)
    setup = Setup().run()
    setup.end()
    setup.task.cancel()
    assert setup.task.state == "FAILED"
    assert setup.listener.states.count("FAILED") == 1


def test_a_cancel_exception_of_the_network_is_a_cancellation(invokable: type[Invokable]) -> None:
    def closed(self: Invokable) -> None:
        raise CancelTaskError("the partition was released")

    invokable.on_invoke = staticmethod(closed)
    assert Setup().run().end()[-1] == "CANCELED"


def test_user_code_that_loops_is_interrupted(invokable: type[Invokable]) -> None:
    def loop(self: Invokable) -> None:
        self.reached.set()
        while True:
            pass

    invokable.on_invoke = staticmethod(loop)
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    assert setup.end()[-1] == "CANCELED"


def test_an_import_is_not_interrupted(
    invokable: type[Invokable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt would leave Python's import lock locked, or a module incomplete."""
    (tmp_path / "slow_to_import.py").write_text(
        "import builtins\n"
        "builtins.reached.set()\n"
        "while not builtins.may_go_on.is_set():\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    may_go_on = threading.Event()
    monkeypatch.setattr(builtins, "may_go_on", may_go_on, raising=False)
    monkeypatch.setattr(builtins, "reached", invokable.reached, raising=False)
    attempts = threading.Semaphore(0)
    interrupt = InterruptibleSection.interrupt

    def counted(section: InterruptibleSection) -> bool:
        was_raised = interrupt(section)
        attempts.release()
        return was_raised

    monkeypatch.setattr(InterruptibleSection, "interrupt", counted)

    def imports(self: Invokable) -> None:
        importlib.import_module("slow_to_import")
        while True:
            pass

    invokable.on_invoke = staticmethod(imports)
    setup = Setup().run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    for _ in range(2):
        assert attempts.acquire(timeout=PATIENCE_S)
    may_go_on.set()
    assert setup.end()[-1] == "CANCELED"
    assert "slow_to_import" in sys.modules
    del sys.modules["slow_to_import"]


def test_a_lock_is_not_left_by_an_interrupt() -> None:
    """A thread that waits for a logging handler would end while it holds the handler's lock."""
    handler = logging.Handler()
    section = InterruptibleSection()

    def logs() -> None:
        with contextlib.suppress(CancelTaskError), section:
            handler.acquire()
            handler.release()
            while True:
                pass

    thread = threading.Thread(target=logs, daemon=True)
    handler.acquire()
    thread.start()
    eventually(lambda: is_within(thread, handler.acquire), "it waits for the lock")
    assert not section.interrupt()
    handler.release()
    eventually(section.interrupt, "it is interrupted")
    thread.join(PATIENCE_S)
    assert handler.lock is not None
    assert handler.lock.acquire(timeout=PATIENCE_S)


def is_within(thread: threading.Thread, function: Any) -> bool:
    assert thread.ident is not None
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and frame.f_code is function.__code__


@pytest.mark.parametrize("interval_s", [0.05, 3600.0])
def test_the_watchdog_declares_the_worker_broken(
    invokable: type[Invokable], interval_s: float
) -> None:
    release = threading.Event()

    def ignore_everything(self: Invokable) -> None:
        self.reached.set()
        while not release.is_set():
            try:
                release.wait(PATIENCE_S)
            except CancelTaskError:
                continue

    invokable.on_invoke = staticmethod(ignore_everything)
    setup = Setup(cancellation_interval_s=interval_s, cancellation_timeout_s=1.5).run()
    assert invokable.reached.wait(PATIENCE_S)
    setup.task.cancel()
    assert setup.listener.fatal.wait(PATIENCE_S)
    release.set()
    assert setup.end()[-1] == "CANCELED"
