"""The life cycle of asynchronous functions, and the bounds of their operator's queue."""

import asyncio
import sys
from functools import partial

import pytest
from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.async_retry_strategies import AsyncRetryStrategy
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.taskexecutor.task.blame import waiting_operator
from penstock.taskexecutor.task.mailbox import MailboxUser
from penstock.testing import OneInputStreamOperatorTestHarness
from support.environments import in_process

TEST = MailboxUser("mails of the test", 1)


def harness(function, *, ordered=True, capacity=10, timeout_ms=0):
    return OneInputStreamOperatorTestHarness(
        operators.AsyncWait(function, timeout_ms=timeout_ms, capacity=capacity, ordered=ordered)
    )


class Client:
    """Belongs to the event loop that created it, and has a task of its own."""

    def __init__(self, log):
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.closing = asyncio.Event()
        self.task = self.loop.create_task(self.closing.wait())

    async def ask(self, value):
        assert asyncio.get_running_loop() is self.loop
        return [value]

    async def aclose(self):
        assert asyncio.get_running_loop() is self.loop
        self.closing.set()
        await self.task
        self.log.append("closed")


class Coroutines(AsyncFunction):
    async def open(self, runtime_context):
        await asyncio.sleep(0)
        self.client = Client(self.log)

    async def async_invoke(self, value):
        return await self.client.ask(value)

    async def close(self):
        await self.client.aclose()


class Plain(AsyncFunction):
    def open(self, runtime_context):
        self.client = Client(self.log)

    async def async_invoke(self, value):
        return await self.client.ask(value)

    def close(self):
        return asyncio.get_running_loop().create_task(self.client.aclose())


@pytest.mark.parametrize("kind", [Coroutines, Plain])
def test_a_client_lives_from_open_to_close_in_one_event_loop(kind):
    function = kind()
    function.log = []
    with harness(function) as test:
        test.process_element(1)
        test.end_input()
        assert test.values == [1]
        assert function.log == []
    assert function.log == ["closed"]
    assert function.client.loop.is_closed()


def test_a_job_opens_and_closes_by_coroutines():
    class Opened(AsyncFunction):
        async def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()

        async def async_invoke(self, value):
            return [(self.subtask, value)]

        async def close(self):
            await asyncio.sleep(0)
            raise OSError("the connection was lost while it was closed")

    pair = Types.TUPLE([Types.INT(), Types.LONG()])
    numbers = in_process().from_collection([1, 2], Types.LONG())
    stream = AsyncDataStream.ordered_wait(numbers, Opened(), Time.hours(1), 2, pair)
    found = []
    with (
        pytest.raises(OSError, match="the connection was lost") as raised,
        stream.execute_and_collect() as results,
    ):
        found += results
    assert any("async wait operator" in note for note in raised.value.__notes__)


class Endless(AsyncFunction):
    """Has calls that end when they are cancelled, which takes another turn of the loop."""

    def __init__(self):
        self.log = []

    async def async_invoke(self, value):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.log.append(value)

    def close(self):
        self.log.append("close")


def test_calls_have_ended_before_close():
    function = Endless()
    with harness(function) as test:
        test.process_element(1)
        test.process_element(2)
    assert set(function.log[:2]) == {1, 2}
    assert function.log[2:] == ["close"]


class FailsToOpen(AsyncFunction):
    def __init__(self, fail):
        self.fail, self.is_closed = fail, False

    def open(self, runtime_context):
        self.fail()

    async def async_invoke(self, value):
        return [value]

    def close(self):
        self.is_closed = True


def stop():
    raise StopIteration


async def wait_for_nothing():
    await asyncio.sleep(0)


def run_a_loop():
    coroutine = wait_for_nothing()
    try:
        asyncio.run(coroutine)
    finally:
        coroutine.close()


@pytest.mark.parametrize(
    ("fail", "kind"), [(stop, StopIteration), (partial(sys.exit, 1), SystemExit)]
)
def test_errors_of_open_are_raised_unchanged(fail, kind):
    function = FailsToOpen(fail)
    test = harness(function)
    with pytest.raises(kind):
        test.open()
    test.close()
    assert function.is_closed


def test_a_second_loop_in_open_is_refused_with_the_remedy():
    test = harness(FailsToOpen(run_a_loop))
    with pytest.raises(RuntimeError, match="running event loop") as raised:
        test.open()
    test.close()
    assert any("write async def" in note for note in raised.value.__notes__)


def test_a_wrong_return_names_the_method_and_the_class():
    class Asking(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.Event().wait()

        def timeout(self, value):
            return None

    with harness(Asking(), timeout_ms=100) as test:
        test.process_element(1)
        words = r"Asking\.timeout of .* must return a list of results or another iterable, it "
        with pytest.raises(TypeError, match=words + "returned None"):
            test.set_processing_time(100)

    class Answering(AsyncFunction):
        async def async_invoke(self, value):
            return 7

    with harness(Answering()) as test:
        test.process_element(1)
        words = r"Answering\.async_invoke of .* must return a list of results or another iterable, "
        with pytest.raises(TypeError, match=words + "it returned 7"):
            test.end_input()


class FirstIsSlow(AsyncFunction):
    """Answers all calls but the first at once, and the first when the test says so."""

    def open(self, runtime_context):
        self.loop = asyncio.get_running_loop()
        self.may_answer = asyncio.Event()

    async def async_invoke(self, value):
        if value == 0:
            await self.may_answer.wait()
        return [value]

    def answer_first(self):
        self.loop.call_soon_threadsafe(self.may_answer.set)


def when_it_waits(test, action):
    """Run an action when the operator waits for room; otherwise the action does not run."""
    test._context.post(action, TEST)


def run_until_second_is_done(test):
    while not test.operator.queue[1].done:
        test.run_mails()


def test_the_operator_that_waits_for_room_is_found_on_the_stack():
    """An expired checkpoint names it, though no user code is on the stack."""
    function, found = FirstIsSlow(), []

    def look():
        found.append(waiting_operator(sys._getframe()))
        function.answer_first()

    with harness(function, capacity=2) as test:
        test.process_element(0)
        test.process_element(1)
        when_it_waits(test, look)
        test.process_element(2)
        test.end_input()
        assert found == [test.operator.context.name]
    assert waiting_operator(sys._getframe()) == waiting_operator(None) == ""


def test_ordered_results_that_wait_for_a_slow_call_count_as_well():
    function = FirstIsSlow()
    with harness(function, capacity=2) as test:
        test.process_element(0)
        test.process_element(1)
        run_until_second_is_done(test)
        assert test.values == []
        when_it_waits(test, function.answer_first)
        test.process_element(2)
        assert test.values == [0, 1]
        test.end_input()
        assert test.values == [0, 1, 2]


@pytest.mark.parametrize("ordered", [True, False])
def test_watermarks_count_as_well(ordered):
    function = FirstIsSlow()
    with harness(function, ordered=ordered, capacity=2) as test:
        test.process_element(0)
        test.process_watermark(5)
        when_it_waits(test, function.answer_first)
        test.process_watermark(6)
        assert test.values == [0]
        assert test.output.watermarks == [5, 6]


def test_results_behind_a_watermark_count_without_order_too():
    function = FirstIsSlow()
    with harness(function, ordered=False, capacity=3) as test:
        test.process_element(0)
        test.process_watermark(5)
        test.process_element(1)
        when_it_waits(test, function.answer_first)
        test.process_element(2)
        assert test.output.watermarks == [5]
        test.end_input()
        assert test.values == [0, 1, 2]


def test_answered_calls_leave_no_timers():
    hour_ms = 3_600_000
    with harness(FirstIsSlow(), capacity=10, timeout_ms=hour_ms) as test:
        for value in range(1, 101):
            test.process_element(value)
        test.end_input()
        assert len(test.values) == 100
        assert test._task._processing_time.num_timers == 0


def test_a_capacity_is_any_integer():
    stream = in_process().from_collection([1])
    numpy = pytest.importorskip("numpy")
    waiting = AsyncDataStream.unordered_wait(stream, Coroutines(), Time.seconds(1), numpy.int64(7))
    assert type(waiting.transformation.operator.capacity) is int


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"data_stream": 5}, "a DataStream is needed, got 5"),
        ({"async_function": Coroutines}, "an AsyncFunction is needed, got"),
        ({"timeout": 5}, "timeout must be a Time or a Duration, got 5"),
        ({"timeout": Time.seconds(-1)}, "timeout must not be negative, got -1000 ms|positive"),
        ({"capacity": "many"}, "capacity must be a whole number, got 'many'"),
        ({"capacity": True}, "capacity must be a whole number, got True"),
        ({"capacity": 0}, "capacity must be positive, got 0"),
    ],
)
def test_a_wrong_argument_is_named(wrong, words):
    stream = in_process().from_collection([1])
    right = {"data_stream": stream, "async_function": Coroutines(), "timeout": Time.seconds(1)}
    once = AsyncRetryStrategy.no_restart()
    for method in (AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait):
        with pytest.raises(InvalidProgramError, match=words):
            method(**right | wrong)
    for method in (
        AsyncDataStream.ordered_wait_with_retry,
        AsyncDataStream.unordered_wait_with_retry,
    ):
        with pytest.raises(InvalidProgramError, match=words):
            method(**right | wrong, async_retry_strategy=once)
