"""Timestamps that a program computes are the integers that the function returns.

The element's own timestamp is passed as a number, without an object; fractions, booleans and values
that are not numbers have the meaning that they have when the function is called.
"""

from decimal import Decimal

import pytest
from penstock.common.timestamps import timestamp_of
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

NONE = -(2**63)
FUNCTIONS = {
    "a field": lambda value, timestamp: value[1],
    "the timestamp": lambda value, timestamp: timestamp,
    "both": lambda value, timestamp: timestamp + value[1],
    "a tuple with the timestamp": lambda value, timestamp: (timestamp, value)[0],
    "the one or the other": lambda value, timestamp: value[1] if timestamp < 0 else timestamp,
    "a fraction": lambda value, timestamp: value[1] / 3,
    "a fraction of the timestamp": lambda value, timestamp: timestamp / 7,
    "a comparison": lambda value, timestamp: timestamp > value[1],
    "a large number": lambda value, timestamp: value[1] * 2**40,
    "a larger number": lambda value, timestamp: value[1] * 2**80,
    "nothing": lambda value, timestamp: None,
    "text": lambda value, timestamp: "seven",
    "a tuple": lambda value, timestamp: (timestamp, value),
    "an error": lambda value, timestamp: value[1] // 0,
}
VALUES = [
    ("a", 0),
    ("a", 5),
    ("a", -5),
    ("a", 2**62),
    ("a", 10**30),
    ("a", 2.75),
    ("a", Decimal(3)),
]
VALUES += [("a", True), ("a", "7"), ("a",), None, ["a", 9]]


def outcome(call, *arguments):
    """Return a result, or the raised error as text."""
    try:
        result = call(*arguments)
    except Exception as error:
        return type(error), str(error)
    return int, result


def expected(function, value, timestamp):
    return timestamp_of(function(value, timestamp), function)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_numbers_are_those_of_the_function(name):
    function = FUNCTIONS[name]
    for timestamp in (NONE, NONE + 1, -1, 0, 1, 2**62, 2**63 - 1):
        for value in VALUES:
            # A new program, since a program that fails too often is abandoned.
            expression = Evaluation().expression(function, 2)
            assert expression is not None, "it is not evaluated, so this would show nothing"
            wanted = outcome(expected, function, value, timestamp)
            for _ in range(2):
                assert outcome(expression.number_of, value, timestamp) == wanted, (value, timestamp)


def test_a_function_that_is_given_up_is_called():
    calls = []
    expression = Evaluation().expression(lambda value, timestamp: value[0], 2)

    class Own:
        def __getitem__(self, index):
            calls.append(index)
            return 7

    assert [expression.number_of(Own(), NONE) for _ in range(200)] == [7] * 200
    assert calls == [0] * 200
    assert expression.number_of((5,), NONE) == 5


def test_a_function_whose_code_was_replaced_is_called():
    def extract(value, timestamp):
        return value[0]

    expression = Evaluation().expression(extract, 2)
    assert expression.number_of((1, 2), NONE) == 1
    extract.__code__ = (lambda value, timestamp: value[1]).__code__
    assert expression.number_of((1, 2), NONE) == 2
