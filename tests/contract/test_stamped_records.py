"""Computed records that are timestamped before an exchange need not be created for it.

Goal: no observer can tell whether the timestamp operator saw the tuple of ``lambda n: (n % 10,
n)``. Method: one native operator gets the expression's records, another one Python's; the
receivers, timestamps, counts, errors and the basis of watermarks are the same.
"""

import pytest
from penstock.common.typeinfo import Types
from penstock.expressions.evaluation import Evaluation

from contract.codecs import NATIVE_IS_BUILT
from contract.plane import Plane
from contract.test_computed_records import DROPPED, NUMBERS, computed, content, exchange_of
from contract.test_record_writer import MIN

pytestmark = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="only the native runtime evaluates")

LONG, DOUBLE = Types.LONG(), Types.DOUBLE()
PAIR = Types.TUPLE([LONG, LONG])
TRIPLE = Types.TUPLE([LONG, LONG, Types.STRING()])


@pytest.fixture
def native():
    with_plane = Plane("native")
    yield with_plane
    with_plane.close()


def operator_of(exchange, extract, *, stamps):
    """Return an operator that timestamps the records of an exchange."""
    from penstock._native.operators.time_operators import TimestampsOperator
    from penstock._native.records.stamped_records import stamped_records

    operator = TimestampsOperator()
    operator.setup(None, exchange.writer)
    operator.extract = extract
    operator.expression = Evaluation().expression(extract, 2)
    operator.tracks_maximum = True
    assert operator.expression is not None, "nothing would be computed"
    if stamps:
        operator.stamped = stamped_records(exchange.writer, operator.expression)
    return operator


def both_ways(plane, function, extract, values, declared, filtered=None):
    """Return the operator of computed records, after a comparison with the other one's results."""
    values = list(values)
    one, other = (exchange_of(plane, declared, 0) for _ in range(2))
    stamping = operator_of(one, extract, stamps=True)
    making = operator_of(other, extract, stamps=False)
    stamping.process_all(computed(function, values, filtered), 7)
    for value in values:
        if filtered is None or filtered(value):
            making.process(function(value), 7)
    assert content(one.finish()) == content(other.finish())
    for name in ("max_timestamp", "had_events"):
        assert getattr(stamping, name) == getattr(making, name)
    assert one.writer.bytes_out == other.writer.bytes_out
    return stamping


EXTRACTS = {
    "a field": lambda element, _: element[1],
    "of fields": lambda element, _: element[1] // 1000 * 1000 + element[0],
    "of the number before": lambda element, before: element[1] + before,
    "the number before": lambda _, before: before,
    "by a branch": lambda element, before: element[1] if element[0] > 0 else before,
}


@pytest.mark.parametrize("declared", [PAIR, None, Types.TUPLE([LONG, DOUBLE])])
@pytest.mark.parametrize("name", EXTRACTS)
def test_timestamps_of_computed_records(native, name, declared):
    both_ways(native, lambda n: (n % 10, n), EXTRACTS[name], NUMBERS, declared)


def test_of_a_field_that_is_a_tuple_or_a_text(native):
    both_ways(native, lambda n: (n, n, "word"), lambda e, _: e[1], NUMBERS, TRIPLE)
    both_ways(native, lambda n: (n, (n, n * 2)), lambda e, _: e[1][1], NUMBERS, None)


def test_no_tuple_is_made(native):
    """All of them are written by their fields."""
    stamping = both_ways(native, lambda n: (n, n), lambda e, _: e[1], range(100), PAIR)
    assert (stamping.stamped.count, stamping.stamped.latest) == (100, 99)


def test_values_that_need_an_object_keep_their_order(native):
    """Values beyond machine integers are created, and smaller ones again not, in one order."""
    numbers = [1, 2**70, 2, -(2**70), 3]
    stamping = both_ways(native, lambda n: (n, 5), lambda e, _: e[1], numbers, None)
    assert stamping.stamped.count == 3
    both_ways(native, lambda n: (n, 1) if n > 0 else [n, 2], lambda e, _: e[1], [3, -3, 4], None)


def test_a_function_that_uses_the_whole_record_gets_the_tuple(native):
    """A function that does more than read fields gets the tuple."""
    from penstock._native.records.stamped_records import stamped_records

    for extract in (lambda e, t: t if e == (1, 1) else e[1], lambda e, t: (e, t)[1]):
        exchange = exchange_of(native, PAIR, 0)
        expression = Evaluation().expression(extract, 2)
        assert stamped_records(exchange.writer, expression) is None
        both_ways(native, lambda n: (n, n), extract, [1, 2], PAIR)


def test_dropped_records_are_no_events(native):
    stamping = both_ways(native, lambda n: (n, n), lambda e, _: e[1], [1, 3], PAIR, lambda n: n > 3)
    assert not stamping.had_events
    assert stamping.max_timestamp == MIN


def test_a_timestamp_that_is_none_fails_in_the_functions_words(native):
    for extract in (lambda e, _: (e[1],), lambda e, _: e[7]):
        one, other = (exchange_of(native, PAIR, 0) for _ in range(2))
        with pytest.raises((TypeError, IndexError)) as computing:
            operator_of(one, extract, stamps=True).process_all(computed(lambda n: (n, n), [1]), 7)
        with pytest.raises((TypeError, IndexError)) as calling:
            operator_of(other, extract, stamps=False).process((1, 1), 7)
        assert str(computing.value) == str(calling.value)
        assert type(computing.value) is type(calling.value)


def test_an_idle_operator_becomes_active_behind_the_first_record(native):
    """As for records that were created."""
    exchange = exchange_of(native, PAIR, 0)
    operator = operator_of(exchange, lambda e, _: e[1], stamps=True)
    from penstock._native.operators.time_operators import TimestampsOperator

    active = []

    class Idling(TimestampsOperator):
        def mark_active(self):
            active.append(exchange.writer.records_out)
            self.idle = False

    idling = Idling()
    idling.setup(None, exchange.writer)
    idling.expression, idling.stamped = operator.expression, operator.stamped
    idling.tracks_maximum = True
    idling.idle = True
    idling.process_all(computed(lambda n: (n, n), range(3)), 7)
    assert active == [1]
    assert exchange.writer.records_out == 3


def test_ranges_are_counted_without_objects(native):
    """Every range returns the numbers that it contains, whatever its step and size."""
    for numbers in (
        range(5),
        range(-3, 3),
        range(5, 2),
        range(0),
        range(0, 10, 3),
        range(5, 0, -2),
        range(2**62 - 1, 2**62 + 2),
        range(2**63 - 2, 2**63 + 2),
        range(-(2**63) - 2, -(2**63) + 2),
    ):
        assert list(computed(lambda n: n, numbers)) == list(numbers)
        assert list(computed(lambda n: (n, n), numbers)) == [(n, n) for n in numbers]
        one, other = exchange_of(native, None, 0), exchange_of(native, None, 0)
        one.writer.collect_all(computed(lambda n: (n, n), numbers), 7)
        for n in numbers:
            other.writer.collect((n, n), 7)
        assert content(one.finish()) == content(other.finish())
    assert DROPPED not in computed(lambda n: n, range(9), lambda n: n > 4)
