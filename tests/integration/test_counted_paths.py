"""Every fast path of a record counts its records, so that a dead path fails a test.

Goal: `explain(analyze=True)` and the metrics show each path with the number of its records. Method:
small jobs with a known number of records on the target in-process.
"""

import decimal
import fractions

import pytest
from penstock.common import Configuration, Row, Types
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DiscardingSink, NumberSequenceSource
from penstock.errors import InvalidProgramError
from penstock.expressions import as_tuple, field
from penstock.network import runtime

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(runtime() != "native", reason="only the native runtime has these paths"),
]

COUNT = 1000
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
VISIT = Types.ROW_NAMED(["user", "price"], [Types.LONG(), Types.LONG()])


def environment(**options):
    options = {"execution.target": "in-process", "parallelism.default": "1", **options}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def numbers(env):
    source = NumberSequenceSource(1, COUNT)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def counts(env, operator):
    """Return the lines of an analysis about an operator, by the name of the count."""
    lines = [line.strip() for line in env.explain(analyze=True).splitlines()]
    found = [line for line in lines if line.startswith(f"{operator}: ") and line[-1].isalpha()]
    pairs = [text.split(" ", 1) for text in found[-1].removeprefix(f"{operator}: ").split(", ")]
    return {what: int(number.replace(",", "")) for number, what in pairs}


class OfField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Reminding(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        yield value

    def on_timer(self, timestamp, ctx):
        yield timestamp, timestamp


def test_functions_that_only_compute_are_evaluated():
    env = environment()
    mapped = numbers(env).map(lambda n: n + 1, Types.LONG()).name("next")
    mapped.filter(lambda n: n % 2 == 0).name("even").sink_to(DiscardingSink())
    assert counts(env, "next") == {"evaluated": COUNT, "given up and called": 0}


def test_values_beyond_the_machine_are_given_up_and_called():
    env = environment()
    stream = env.from_collection([1, fractions.Fraction(1, 2), 3])
    stream.map(lambda n: n + 1).name("next").sink_to(DiscardingSink())
    assert counts(env, "next") == {"evaluated": 2, "given up and called": 1}


def test_expressions_of_rows_are_evaluated():
    env = environment()
    rows = numbers(env).map(lambda n: Row(user=n % 10, price=n), VISIT).name("rows")
    doubled = rows.map(as_tuple(field("user"), field("price") * 2), PAIR).name("doubled")
    doubled.sink_to(DiscardingSink())
    assert counts(env, "doubled") == {"evaluated": COUNT, "given up and called": 0}


@pytest.mark.parametrize("declared", [PAIR, None])
def test_tuples_in_front_of_a_keyed_exchange_are_not_made(declared):
    env = environment()
    pairs = numbers(env).map(lambda n: (n % 10, n), declared).name("pairs")
    pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).name(
        "total"
    ).sink_to(DiscardingSink())
    found = counts(env, "pairs")
    assert found["written without an object"] == found["records out"] == COUNT


def test_reductions_that_only_compute_are_evaluated():
    env = environment()
    pairs = numbers(env).map(lambda n: (n % 10, n), PAIR)
    pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).name(
        "total"
    ).sink_to(DiscardingSink())
    # The first element of a key is its accumulator.
    assert counts(env, "total")["evaluated"] == COUNT - 10


def test_timestamps_on_the_way_to_an_exchange_need_no_object():
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfField())
    pairs = numbers(env).map(lambda n: (n % 10, n), PAIR)
    timed = pairs.assign_timestamps_and_watermarks(strategy).name("timed")
    timed.key_by(lambda pair: pair[0]).process(Reminding(), PAIR).name("reminding").sink_to(
        DiscardingSink()
    )
    found = counts(env, "timed")
    assert found["written without an object"] == found["records out"] == COUNT


def test_process_functions_and_their_timers_are_evaluated():
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfField())
    timed = numbers(env).map(lambda n: (n % 10, n), PAIR).assign_timestamps_and_watermarks(strategy)
    timed.key_by(lambda pair: pair[0]).process(Reminding(), PAIR).name("reminding").sink_to(
        DiscardingSink()
    )
    # One element and one timer for each number.
    found = counts(env, "reminding")
    assert (found["evaluated"], found["given up and called"]) == (2 * COUNT, 0)


def test_sums_of_a_field_are_added_up_where_they_are_kept():
    env = environment()
    pairs = numbers(env).map(lambda n: (n % 10, n), PAIR)
    pairs.key_by(lambda pair: pair[0]).sum(1).name("total").sink_to(DiscardingSink())
    assert counts(env, "total")["summed in place"] == COUNT - 10


@pytest.mark.parametrize(
    ("key", "key_type", "converted"),
    [
        (lambda pair: pair, PAIR, 0),
        (lambda pair: pair[0], Types.LONG(), 0),
        (lambda pair: str(pair[0]), Types.STRING(), 0),
        (lambda pair: decimal.Decimal(pair[0]), Types.BIG_DEC(), COUNT),
    ],
)
def test_keys_of_their_declared_type_are_not_converted(key, key_type, converted):
    env = environment()
    pairs = numbers(env).map(lambda n: (n % 10, n), PAIR)
    pairs.key_by(key, key_type).reduce(lambda a, b: a).name("first").sink_to(DiscardingSink())
    assert counts(env, "first")["keys converted by a call"] == converted


def test_every_function_is_called_where_the_job_says_so():
    env = environment(**{"penstock.evaluate-functions": "false"})
    numbers(env).map(lambda n: n + 1, Types.LONG()).name("next").sink_to(DiscardingSink())
    text = env.explain(analyze=True)
    assert "evaluated," not in text
    assert "called, it is not analysed" in text


def test_a_job_without_an_end_is_not_analyzed():
    env = environment()
    env.socket_text_stream("127.0.0.1", 1).sink_to(DiscardingSink())
    with pytest.raises(InvalidProgramError, match="'Socket Stream' has no end"):
        env.explain(analyze=True)


def test_a_job_of_a_session_is_not_analyzed():
    env = environment(**{"execution.target": "session"})
    numbers(env).sink_to(DiscardingSink())
    with pytest.raises(InvalidProgramError, match="does not run in a session"):
        env.explain(analyze=True)
