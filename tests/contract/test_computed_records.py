"""Records that a program computes are written without creating objects, with the same result.

Goal: no observer can tell whether the tuple of ``lambda n: (n % 10, n)`` existed (B-1, A-14).
Method: one native writer gets the expression's records, another one Python's; the receivers,
channels, counts and errors are the same.  Fields and keys are of every kind, including those that
the fast path leaves to the codec.
"""

import operator

import pytest
from penstock.common.typeinfo import Types
from penstock.errors import SerializationError
from penstock.expressions.evaluation import Evaluation, Stage
from penstock.serialization.key_types import sent_key_type

from contract.codecs import NATIVE_IS_BUILT
from contract.plane import Background, Plane
from contract.test_record_writer import MIN, Exchange

pytestmark = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="only the native runtime evaluates")

DROPPED = object()
LONG, INT, STRING, DOUBLE = Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()
CHANNELS = 3


@pytest.fixture
def native():
    with_plane = Plane("native")
    yield with_plane
    with_plane.close()


def exchange_of(plane, declared, position, key_type=None, channels=CHANNELS):
    sent, elements = sent_key_type(key_type, declared, position)
    return Exchange(
        plane,
        "KEY_GROUP",
        channels,
        declared,
        key_selector=operator.itemgetter(position),
        key_type=sent,
        elements=elements,
        max_parallelism=128,
    )


def computed(function, values, filtered=None):
    from penstock._native.evaluator.expression import Expression

    stages = [Stage(function)]
    if filtered is not None:
        stages.insert(0, Stage(filtered, is_filter=True))
    program = Evaluation().program_of_stages(stages)
    assert program is not None, "the function is not evaluated, so this would show nothing"

    def called(value):
        return function(value) if filtered is None or filtered(value) else DROPPED

    return Expression(called, program, DROPPED).over(values)


def content(channels):
    """Return the values with their classes, such that a NaN equals itself."""
    return [[(repr(value), timestamp) for value, timestamp in channel] for channel in channels]


def both_ways(plane, function, values, declared, position, key_type=None, filtered=None):
    """Return the received computed records, after a comparison with those that Python computes."""
    values = list(values)
    one = exchange_of(plane, declared, position, key_type)
    other = exchange_of(plane, declared, position, key_type)
    one.writer.collect_all(computed(function, values, filtered), 7)
    for value in values:
        if filtered is None or filtered(value):
            other.writer.collect(function(value), 7)
    counts = [(e.writer.records_out, e.writer.bytes_out) for e in (one, other)]
    assert counts[0] == counts[1]
    arrived = one.finish()
    assert content(arrived) == content(other.finish())
    return arrived


NUMBERS = [0, 1, -1, 63, 64, -33, 127, 128, -129, 2**15, 2**31 - 1, -(2**31), 5_000_000_000, -7]

#: Functions of a number, with the declared type of their result.
RECORDS = {
    "two numbers": (lambda n: (n % 10, n), Types.TUPLE([LONG, LONG])),
    "undeclared": (lambda n: (n % 10, n), None),
    "one field": (lambda n: (n,), Types.TUPLE([LONG])),
    "no declared field": (lambda n: (n, n), Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), LONG])),
    "int": (lambda n: (n % 1000, n & 0xFFFF), Types.TUPLE([INT, INT])),
    "short": (lambda n: (n % 100, n & 0xFF), Types.TUPLE([Types.SHORT(), Types.SHORT()])),
    "big": (lambda n: (n, n * 2**40), Types.TUPLE([LONG, Types.BIG_INT()])),
    "beyond 64 bits": (lambda n: (n, n * 2**80), None),
    "fractions": (lambda n: (n, n / 7), Types.TUPLE([LONG, DOUBLE])),
    "floats": (lambda n: (n, n / 7, 1e300 * n), None),
    "32-bit fractions": (lambda n: (n, n / 7), Types.TUPLE([LONG, Types.FLOAT()])),
    "whole numbers as fractions": (lambda n: (n, n), Types.TUPLE([LONG, DOUBLE])),
    "constants": (lambda n: (n, "word", 1, None, True), None),
    "declared constants": (
        lambda n: (n, "word", None, True),
        Types.TUPLE([LONG, STRING, LONG, Types.BOOLEAN()]),
    ),
    "comparison": (lambda n: (n, n > 0), Types.TUPLE([LONG, Types.BOOLEAN()])),
    "nested": (lambda n: (n, (n, "x")), None),
    "declared nested": (lambda n: (n, (n, 2)), Types.TUPLE([LONG, Types.TUPLE([LONG, LONG])])),
    "list": (lambda n: [n, n], None),
    "sometimes a tuple": (lambda n: (n, 1) if n > 0 else (n, "one"), None),
    "many fields": (
        lambda n: (n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, n),
        None,
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_computed_of_numbers(native, name):
    """Every width of an integer, and fields that the fast path accepts or leaves to the codec."""
    function, declared = RECORDS[name]
    arrived = both_ways(native, function, NUMBERS, declared, 0)
    assert sum(map(len, arrived)) == len(NUMBERS)


WORDS = [
    "",
    "a",
    "word",
    "Word",
    "x" * 5_000,
    "größer",
    "\ud800",
    "a\x00b",
    "\U0001f600",
    "ab" * 40,
]


@pytest.mark.parametrize("declared", [Types.TUPLE([STRING, LONG]), None])
def test_records_computed_of_words(native, declared):
    """Short, long and non-ASCII words; the program itself creates some, only for the record."""
    both_ways(native, lambda w: (w, 1), WORDS, declared, 0)
    both_ways(native, lambda w: (w + "!", 1), WORDS, declared, 0)
    both_ways(native, lambda w: (w[0], w[1]), [(w, i) for i, w in enumerate(WORDS)], declared, 0)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_key_is_any_field(native, position):
    declared = Types.TUPLE([LONG, STRING, LONG])
    values = [(n, f"w{n % 5}") for n in NUMBERS]
    for types in (declared, None):
        both_ways(native, lambda v: (v[0], v[1], v[0] // 3), values, types, position)


@pytest.mark.parametrize(
    "key_type", [LONG, INT, Types.SHORT(), Types.BIG_INT(), DOUBLE, Types.FLOAT(), None]
)
def test_keys_of_declared_types(native, key_type):
    """Their hashes differ; the fast path leaves those of fractions to the selector."""
    for declared in (Types.TUPLE([LONG, LONG]), Types.TUPLE([INT, LONG]), None):
        both_ways(native, lambda n: (n % 1000, n), NUMBERS, declared, 0, key_type)


def test_declared_keys_of_text(native):
    both_ways(native, lambda w: (w, 1), WORDS, None, 0, STRING)


def test_numbers_of_every_size(native):
    """Numbers of up to 64 bits, and larger ones than the program computes with."""
    numbers = [
        sign * (2**bits + step) for bits in range(63) for step in (-1, 0) for sign in (1, -1)
    ]
    both_ways(native, lambda n: (n, n), [*numbers, -(2**63), 2**63 - 1], None, 0)
    both_ways(native, lambda n: (n, n), [*numbers, -(2**63)], Types.TUPLE([LONG, LONG]), 0)


def test_dropped_records_are_not_written(native):
    arrived = both_ways(native, lambda n: (n, n), NUMBERS, None, 0, filtered=lambda n: n % 2 == 0)
    assert sum(map(len, arrived)) == sum(n % 2 == 0 for n in NUMBERS)


def outcome(write):
    """Return the text of a writer's exception; None if there is none."""
    try:
        write()
    except SerializationError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("function", "declared", "value"),
    [
        (lambda n: (n, n), Types.TUPLE([LONG, INT]), 2**31),
        (lambda n: (n, n), Types.TUPLE([INT, LONG]), -(2**31) - 1),
        (lambda n: (n, n), Types.TUPLE([LONG, STRING]), 5),
        (lambda n: (n, "x"), Types.TUPLE([LONG, LONG]), 5),
        (lambda n: (n, n), Types.TUPLE([LONG]), 5),
        (lambda n: (n,), Types.TUPLE([LONG, LONG]), 5),
        (lambda n: (n, n), Types.TUPLE([LONG, LONG]), 2**62 + 2**61),
    ],
)
def test_values_that_do_not_fit_their_type_raise_the_same_error(native, function, declared, value):
    """Neither path accepts a number that is too large for the program only."""
    one, other = exchange_of(native, declared, 0), exchange_of(native, declared, 0)
    said = outcome(lambda: other.writer.collect(function(value), MIN))
    assert outcome(lambda: one.writer.collect_all(computed(function, [value]), MIN)) == said
    assert (said is None) == (value > 2**62)
    assert content(one.finish()) == content(other.finish())


def test_an_error_of_the_function_ends_it_there(native):
    """The program can be used again: it is not left in the middle of an evaluation."""
    exchange = exchange_of(native, Types.TUPLE([LONG, LONG]), 0)
    values = computed(lambda n: (n, 10 // n), [5, 2, 0, 1])
    with pytest.raises(ZeroDivisionError):
        exchange.writer.collect_all(values, MIN)
    exchange.writer.collect_all(values, MIN)
    arrived = [value for channel in exchange.finish() for value, _ in channel]
    assert sorted(arrived) == [(1, 10), (2, 5), (5, 2)]


def test_records_are_asked_for_one_by_one(native):
    """Each is written before the next one is requested."""
    exchange = exchange_of(native, None, 0)
    seen = []

    def values():
        for number in range(4):
            seen.append(exchange.writer.records_out)
            yield number

    exchange.writer.collect_all(computed(lambda n: (n, n), values()), MIN)
    assert seen == [0, 1, 2, 3]
    assert exchange.writer.records_out == 4


def test_records_that_fill_buffers(native):
    """Some wait for a buffer and some span two; none is lost, and their order is kept."""
    exchange = exchange_of(native, Types.TUPLE([LONG, STRING]), 0, channels=1)
    words = [(n, "y" * (n % 97)) for n in range(600)]

    def write():
        exchange.writer.collect_all(computed(lambda v: (v[0], v[1] + "!"), words), MIN)
        exchange.partition.finish()

    background = Background(write)
    [arrived] = exchange.read_to_end()
    background.result()
    assert arrived == [((n, w + "!"), MIN) for n, w in words]


def test_other_selectors_get_the_record(native):
    """A custom partitioner gets the tuple; round robin needs none, but gets it, too."""
    for kind, arguments in (
        ("CUSTOM", {"function": lambda record, count: record[1] % count}),
        ("REBALANCE", {}),
        ("BROADCAST", {}),
    ):
        one = Exchange(native, kind, CHANNELS, None, **arguments)
        one.writer.collect_all(computed(lambda n: (n, n * 3), range(9)), MIN)
        arrived = one.finish()
        copies = CHANNELS if kind == "BROADCAST" else 1
        assert sorted(v for channel in arrived for v, _ in channel) == sorted(
            [(n, n * 3) for n in range(9)] * copies
        )
        if kind == "CUSTOM":
            assert all(v[1] % CHANNELS == i for i, c in enumerate(arrived) for v, _ in c)
