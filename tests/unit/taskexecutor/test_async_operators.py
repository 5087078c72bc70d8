"""Asynchronous calls of operators: their order, capacity, retries and timeouts."""

import asyncio

import pytest
from penstock.datastream.functions import (
    AsyncFunction,
    AsyncRetryStrategy,
)
from penstock.graph import operators
from penstock.testing import (
    OneInputStreamOperatorTestHarness,
)


def async_harness(function, *, mode="ORDERED", capacity=10, timeout_ms=0, retry=None):
    arguments = {
        "capacity": capacity,
        "timeout_ms": timeout_ms,
        "ordered": mode == "ORDERED",
        "retry_strategy": retry,
    }
    return OneInputStreamOperatorTestHarness(operators.AsyncWait(function, **arguments))


@pytest.mark.parametrize(
    ("mode", "expected"), [("ORDERED", [1, 2, "w", 3]), ("UNORDERED", [2, 1, "w", 3])]
)
def test_async_results_never_cross_a_watermark(mode, expected):
    class Gated(AsyncFunction):
        def open(self, runtime_context):
            self.second_is_done = None

        async def async_invoke(self, value):
            if self.second_is_done is None:
                self.second_is_done = asyncio.Event()
            if value == 1:
                await self.second_is_done.wait()
            elif value == 2:
                self.second_is_done.set()
            return [value]

    with async_harness(Gated(), mode=mode) as test:
        test.process_element(1, 5)
        test.process_element(2, 6)
        test.process_watermark(6)
        test.process_element(3, 7)
        test.end_input()
        got = ["w" if event[0] == "watermark" else event[1] for event in test.output.events]
        assert got[2:] == expected[2:]
        assert sorted(got[:2]) == [1, 2]
        if mode == "ORDERED":
            assert got == expected


def test_async_capacity_bounds_the_calls_under_way():
    class Counting(AsyncFunction):
        def open(self, runtime_context):
            self.flying = self.peak = 0

        async def async_invoke(self, value):
            self.flying += 1
            self.peak = max(self.peak, self.flying)
            await asyncio.sleep(0)
            self.flying -= 1
            return [value]

    function = Counting()
    with async_harness(function, capacity=2) as test:
        for value in range(20):
            test.process_element(value)
        test.end_input()
        assert test.values == list(range(20))
    assert function.peak <= 2


def test_async_retries_until_the_strategy_gives_up():
    class Flaky(AsyncFunction):
        def open(self, runtime_context):
            self.calls = 0

        async def async_invoke(self, value):
            self.calls += 1
            return [] if self.calls < 3 else [self.calls]

    retry = AsyncRetryStrategy.fixed_delay(5, 1, lambda result: not result, None)
    with async_harness(Flaky(), retry=retry) as test:
        test.process_element(1)
        test.end_input()
        assert test.values == [3]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda value: iter([value, 2]), [1, 2]),
        (lambda value: {value: "a"}, [1]),
        (lambda value: "ab", ["a", "b"]),
        (lambda value: range(value), [0]),
    ],
)
def test_async_functions_give_any_iterable(result, expected):
    class Ask(AsyncFunction):
        async def async_invoke(self, value):
            return result(value)

    with async_harness(Ask()) as test:
        test.process_element(1)
        test.end_input()
        assert test.values == expected


def test_async_retries_do_not_ask_a_predicate_about_none():
    class Nothing(AsyncFunction):
        async def async_invoke(self, value):
            return None

    retry = AsyncRetryStrategy.fixed_delay(5, 1, lambda result: len(result) == 0, None)
    with async_harness(Nothing(), retry=retry) as test:
        test.process_element(1)
        with pytest.raises(TypeError, match="returned None"):
            test.end_input()


def test_async_timeout_gives_a_substitute_or_fails():
    class Never(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.Event().wait()

    class Patient(Never):
        def timeout(self, value):
            return [-value]

    with async_harness(Patient(), timeout_ms=100) as test:
        test.process_element(1)
        test.set_processing_time(100)
        assert test.values == [-1]
    with async_harness(Never(), timeout_ms=100) as test:
        test.process_element(1)
        with pytest.raises(TimeoutError, match="timed out"):
            test.set_processing_time(100)
