"""Retries of an asynchronous function: conditions, number, and time limit."""

import asyncio

import pytest
from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy
from support.environments import in_process

WAITS = [AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry]
HOUR = Time.hours(1)


class Asks(AsyncFunction):
    """Fails a number of times before it has an answer, with no result or with an error."""

    def __init__(self, failures, error=None):
        self.failures, self.error, self.asked = failures, error, {}

    async def async_invoke(self, value):
        self.asked[value] = asked = self.asked.get(value, 0) + 1
        if asked > self.failures:
            return [(value, asked)]
        if self.error is not None:
            raise self.error
        return []

    def timeout(self, value):
        return [(value, -1)]


def answers(wait, function, strategy, timeout=HOUR):
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = in_process().from_collection([1, 2], Types.LONG())
    stream = wait(numbers, function, timeout, strategy, 2, pair)
    with stream.execute_and_collect() as found:
        return sorted(found)


def fixed(attempts, results=None, errors=None):
    return AsyncRetryStrategy.fixed_delay(attempts, 1, results, errors)


def growing(attempts, results=None, errors=None):
    return AsyncRetryStrategy.exponential_backoff(attempts, 1, 4, 2.0, results, errors)


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("strategy", [fixed, growing])
def test_empty_results_and_exceptions_are_tried_again(wait, strategy):
    by_result = strategy(3, lambda result: not result)
    assert answers(wait, Asks(3), by_result) == [(1, 4), (2, 4)]
    by_error = strategy(3, None, lambda error: isinstance(error, OSError))
    assert answers(wait, Asks(3, OSError("away")), by_error) == [(1, 4), (2, 4)]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("strategy", [fixed, growing])
def test_the_first_call_does_not_count_as_a_retry_as_in_pyflink(wait, strategy):
    assert answers(wait, Asks(4), strategy(3, lambda result: not result)) == []
    with pytest.raises(OSError, match="away"):
        answers(wait, Asks(4, OSError("away")), strategy(3, None, lambda error: True))


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize(
    "strategy",
    [
        fixed(3),
        fixed(3, None, lambda error: isinstance(error, KeyError)),
        fixed(3, lambda result: True),
        AsyncRetryStrategy.no_restart(),
    ],
)
def test_other_exceptions_fail_at_once(wait, strategy):
    with pytest.raises(OSError, match="away"):
        answers(wait, Asks(1, OSError("away")), strategy)


class Never(Asks):
    async def async_invoke(self, value):
        await asyncio.sleep(0.01)
        raise OSError("away")


@pytest.mark.parametrize("wait", WAITS)
def test_the_time_is_that_of_all_tries_together(wait):
    strategy = fixed(1_000_000, None, lambda error: True)
    found = answers(wait, Never(0), strategy, Time.milliseconds(100))
    assert found == [(1, -1), (2, -1)]


def test_waits_grow_to_the_longest():
    strategy = growing(9)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 4]


def test_a_wait_stays_the_longest_after_thousands_of_tries():
    strategy = growing(1_000_000)
    assert strategy.get_backoff_time_millis(5_000) == 4
