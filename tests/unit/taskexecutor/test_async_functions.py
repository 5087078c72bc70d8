"""The life cycle of asynchronous functions."""

import asyncio
import sys
from functools import partial

import pytest
from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.graph import operators
from penstock.testing import OneInputStreamOperatorTestHarness
from support.environments import in_process


def harness(function, *, ordered=True, capacity=10, timeout_ms=0):
    return OneInputStreamOperatorTestHarness(
        operators.AsyncWait(function, timeout_ms=timeout_ms, capacity=capacity, ordered=ordered)
    )


class Client:
    """Belongs to the event loop in which it was made, and has a task of its own."""

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
    """Has calls that end when they are cancelled, and needs time for that."""

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
def test_what_open_raises_is_raised_as_it_is(fail, kind):
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
        with pytest.raises(TypeError, match=r"Asking\.timeout of .* returned None"):
            test.set_processing_time(100)

    class Answering(AsyncFunction):
        async def async_invoke(self, value):
            return 7

    with harness(Answering()) as test:
        test.process_element(1)
        with pytest.raises(TypeError, match=r"Answering\.async_invoke of .* returned 7"):
            test.end_input()
