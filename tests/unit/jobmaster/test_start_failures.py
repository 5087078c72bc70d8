"""Workers that cannot be started delay later ones for a while, and requests fail with a reason.

Method: a ResourceManager with a driver, a clock and timers of the test's own.
"""

import pytest
from penstock import __version__
from penstock.jobmaster.workers.resource_manager import ResourceManager, WorkerExit, WorkerSpec
from penstock.rpc.messages import RegisterTaskExecutor, RequestSlot
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds

JOB = b"j" * 16


class World:
    """The surroundings of a ResourceManager."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.started: list[str] = []
        self.refusals: list[bool] = []
        self.timers: list[tuple[float, object]] = []
        self.resources = ResourceManager(
            self,  # type: ignore[arg-type]
            None,
            lambda executor_id, epoch, slots, job: {"jobs": [job]},
            (1, 2),
            lambda delay_s, action: self.timers.append((self.now_s + delay_s, action)),
            lambda: self.now_s,
        )

    # the driver

    def start(self, requests: list[WorkerSpec]) -> None:
        self.started.extend(request.executor_id for request in requests)
        self.jobs = {request.executor_id: tuple(request.launch["jobs"]) for request in requests}

    def places(self) -> None:
        return None

    # the job

    def slots_not_available(self, *, recoverable: bool) -> None:
        self.refusals.append(recoverable)

    # a connection

    def send(self, message: object) -> None:
        if isinstance(message, RequestSlot):
            self.requested = message.allocation_id

    def close_after_flush(self, reason: str) -> None:
        self.closed = reason

    # the events

    def declare(self, missing: int) -> None:
        self.resources.declare(JOB, missing, self, NetworkBufferNeeds())

    def fail(self, executor_id: str = "", *, hopeless: bool = False) -> None:
        end = WorkerExit(executor_id or self.started[-1], None, None, hopeless=hopeless)
        self.resources.worker_exited(end)

    def register(self, *, run: str = "", epoch: int = 1, is_taken: bool = True) -> None:
        name = self.started[-1]
        message = RegisterTaskExecutor(
            name + run, epoch, "localhost", self.jobs[name], 1, 1, __version__
        )
        executor = self.resources.register(message, self)  # type: ignore[arg-type]
        assert (executor is not None) == is_taken

    def offer(self) -> None:
        self.resources.slot_offered(self.started[-1], self.requested, ("localhost", 1))

    def lose(self) -> None:
        self.resources.executor_lost(self.started[-1])

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer not in due]
        for _, action in due:
            action()  # type: ignore[operator]


@pytest.fixture
def world() -> World:
    world = World()
    world.declare(1)
    return world


def fail_until_refused(world: World) -> None:
    for _ in range(3):
        world.fail()


def test_a_failed_start_is_repeated_at_once(world: World) -> None:
    world.fail()
    world.fail()
    assert len(world.started) == 3
    assert world.refusals == []


def test_the_third_in_a_row_refuses_and_the_next_request_waits(world: World) -> None:
    """A later request, of a job that restarts, starts a worker when the pause is over."""
    fail_until_refused(world)
    assert world.refusals == [True]
    assert len(world.started) == 3
    world.pass_time(0.9)
    assert len(world.started) == 3
    world.pass_time(0.2)
    assert len(world.started) == 4
    world.register()
    assert world.refusals == [True]


def test_pauses_grow_with_each_failure(world: World) -> None:
    fail_until_refused(world)
    pauses_s = []
    for count in range(3, 10):
        assert len(world.started) == count
        pauses_s.append(world.timers[0][0] - world.now_s)
        world.pass_time(pauses_s[-1])
        assert len(world.started) == count + 1
        world.fail()
    assert pauses_s == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_minute_without_failures_ends_the_pauses(world: World) -> None:
    fail_until_refused(world)
    world.pass_time(1)
    world.pass_time(61)
    world.fail()
    assert len(world.started) == 5
    assert world.timers == []


def test_workers_of_one_request_refuse_it_once(world: World) -> None:
    """However many of them fail, and although the job requests again before the last one fails."""
    world.declare(10)
    first = list(world.started)
    assert len(first) == 10
    for executor_id in first:
        world.fail(executor_id)
    assert world.refusals == [True]
    world.pass_time(1)
    assert len(world.started) == 20
    for executor_id in world.started[12:15]:
        world.fail(executor_id)
    assert world.refusals == [True] * 2


def test_failures_among_successes_hold_up_later_starts_and_refuse_nothing(world: World) -> None:
    for _ in range(2):
        world.fail()
        world.register()
        world.offer()
        world.declare(1)
    world.fail()
    assert world.refusals == []
    assert len(world.started) == 5
    assert [due_s - world.now_s for due_s, _ in world.timers] == [1.0]


def test_a_hopeless_one_refuses_for_good(world: World) -> None:
    world.fail(hopeless=True)
    assert world.refusals == [False]


def test_a_worker_that_dies_before_it_offers_its_slot_is_replaced(world: World) -> None:
    """The job that waits for the slot does not repeat its request."""
    world.register()
    world.lose()
    assert len(world.started) == 2


def test_workers_that_come_up_and_cannot_give_a_slot_count_as_failed_starts(world: World) -> None:
    """If a worker cannot set up what a job needs, no others are started in an endless loop."""
    for _ in range(3):
        assert world.refusals == []
        world.register()
        world.lose()
    assert world.refusals == [True]
    assert len(world.started) == 3
    world.pass_time(1)
    assert len(world.started) == 4
    world.register()
    world.offer()
    world.lose()
    assert world.refusals == [True]
    assert len(world.started) == 4


@pytest.mark.parametrize(("release", "named"), [("0.0.1", "0.0.1"), ("", "of another release")])
def test_a_worker_of_another_release_is_refused_in_words(
    world: World, release: str, named: str
) -> None:
    """Messages within a cluster have no version, so all workers must have one release."""
    name = world.started[-1]
    message = RegisterTaskExecutor(name, 1, "localhost", world.jobs[name], 1, 1, release)
    assert world.resources.register(message, world) is None  # type: ignore[arg-type]
    assert f"has penstock {named}, and the driver {__version__}" in world.closed
    assert world.resources.executors == {}


def test_a_job_that_comes_later_gets_workers_of_its_own(world: World) -> None:
    """Existing workers were started without the files of that job."""
    world.register()
    world.offer()
    world.resources.declare(b"k" * 16, 1, world, NetworkBufferNeeds())
    assert len(world.started) == 2
    assert world.jobs[world.started[-1]] == (b"k" * 16,)


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_incarnation_that_is_no_newer_is_refused(world: World, epoch: int) -> None:
    """A registration that arrives twice, or late; the worker that serves the job continues."""
    world.register(epoch=2)
    serving = world.resources.executors[world.started[-1]]
    world.register(epoch=epoch, is_taken=False)
    assert world.closed.endswith(f"registered with epoch 2, this incarnation has {epoch}")
    assert world.resources.executors[world.started[-1]] is serving


def test_a_run_of_a_worker_is_found_by_the_name_that_it_was_asked_for_by(world: World) -> None:
    """Spark uses that name to report why it has lost the worker's host."""
    world.register(run="-4b9110c4")
    (name,) = world.started
    registered = world.resources.registered(name)
    assert registered is not None
    assert registered.executor_id == f"{name}-4b9110c4"
    assert world.resources.registered(f"{name}-4b9110c4") is registered
    assert world.resources.registered(name[:-1]) is None
