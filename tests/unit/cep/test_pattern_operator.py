"""The operator of patterns: order, lateness, timers, side outputs, and its state in snapshots."""

from dataclasses import dataclass
from random import Random

import pytest
from penstock.cep import (
    CEP,
    IterativeCondition,
    MalformedPatternError,
    Pattern,
    PatternProcessFunction,
    SimpleCondition,
    SkipStrategy,
    TimedOutPartialMatchHandler,
)
from penstock.cep.pattern_stream import compiled_for
from penstock.common.time import Duration, Time
from penstock.common.typeinfo import Types
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.errors import IllegalStateError, InvalidProgramError
from penstock.expressions import field
from penstock.graph import operators
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    PipelineTestHarness,
    feed_pattern,
    redistribute,
)

BACKENDS = ["hashmap", "rocksdb"]
LATE = OutputTag("late")
ENDED = OutputTag("ended")
EVENT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()])


class Texts(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Emits matches as texts, with their timestamps."""

    def process_match(self, match, ctx):
        yield described(match), ctx.timestamp()

    def process_timed_out_match(self, match, ctx):
        yield ENDED, (described(match), ctx.timestamp())


def described(match):
    return " ".join(
        f"{name}={'+'.join(str(value[2]) for value in values)}" for name, values in match.items()
    )


def kind(letter):
    return lambda event: event[1] == letter


def order_and_pay(within=10):
    return (
        Pattern.begin("order")
        .where(kind("o"))
        .followed_by("pay")
        .where(kind("p"))
        .within(Duration.of_millis(within))
    )


def harness_of(pattern, backend="hashmap", comparator=None, *, is_keyed=True, change=None):
    """Return a harness with the pattern on "in", its matches in "out", and two side outputs."""
    harness = PipelineTestHarness({"state.backend.type": backend})
    stream = harness.source("in", EVENT)
    if is_keyed:
        stream = stream.key_by(lambda event: event[0])
    patterns = CEP.pattern(stream, pattern, comparator).side_output_late_data(LATE)
    matches = (patterns if change is None else change(patterns)).process(Texts())
    harness.sink("out", matches)
    harness.sink("late", matches.get_side_output(LATE))
    harness.sink("ended", matches.get_side_output(ENDED))
    return harness


def send(harness, *events):
    """Send events, given as ("key", "kind", number), with their number as timestamp."""
    for event in events:
        harness.process_element("in", event, event[2])


def test_records_are_ordered_by_time_and_matches_carry_that_of_their_last():
    with harness_of(order_and_pay()) as harness:
        send(harness, ("k", "p", 5), ("k", "o", 3), ("l", "o", 4), ("k", "p", 6))
        assert harness.values("out") == []
        harness.process_watermark("in", 5)
        assert harness.output("out").records == [(("order=3 pay=5", 5), 5)]
        harness.process_watermark("in", 100)
        assert harness.values("out") == [("order=3 pay=5", 5)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_waiting_records_of_a_key_share_a_timer(backend):
    """Only the earliest needs one: all that the watermark reached are processed when it fires."""
    harness = KeyedOneInputStreamOperatorTestHarness(
        operators.MatchPattern(
            Texts(), pattern=compiled_for(Pattern.begin("a").where(kind("o")), None)
        ),
        lambda event: event[0],
        configuration={"state.backend.type": backend},
    )
    with harness:
        for timestamp in (4, 6, 9, 5, 2):
            harness.process_element(("k", "o", timestamp), timestamp)
        assert harness.num_event_time_timers == 2
        harness.process_watermark(5)
        assert [text for text, _ in harness.values] == ["a=2", "a=4", "a=5"]
        assert harness.num_event_time_timers == 1
        harness.process_element(("k", "o", 8), 8)
        harness.process_element(("k", "o", 10), 10)
        assert harness.num_event_time_timers == 1
        harness.process_watermark(6)
        harness.process_watermark(9)
        assert [text for text, _ in harness.values][3:] == ["a=6", "a=8", "a=9"]
        harness.process_watermark(10)
        assert [text for text, _ in harness.values][6:] == ["a=10"]
        assert harness.num_event_time_timers == 0


def test_records_of_one_timestamp_stay_in_order_or_follow_the_comparator():
    pattern = Pattern.begin("a").where(kind("o")).next("b").where(kind("p"))
    events = [("k", "p", 5), ("k", "o", 5)]
    for comparator, expected in ((None, []), (lambda x, y: (x[1] > y[1]) - (x[1] < y[1]), 1)):
        with harness_of(pattern, comparator=comparator) as harness:
            send(harness, *events)
            harness.process_watermark("in", 5)
            assert harness.values("out") == (expected and [("a=5 b=5", 5)])


def test_late_records_go_to_the_side_output():
    with harness_of(order_and_pay()) as harness:
        harness.process_watermark("in", 10)
        send(harness, ("k", "o", 10), ("k", "o", 11))
        assert harness.values("late") == [("k", "o", 10)]


def test_late_records_are_counted_without_a_side_output():
    harness = PipelineTestHarness()
    stream = harness.source("in", EVENT).key_by(lambda event: event[0])
    harness.sink("out", CEP.pattern(stream, order_and_pay()).process(Texts()).name("orders"))
    with harness:
        harness.process_watermark("in", 10)
        send(harness, ("k", "o", 9))
        assert harness.metrics("orders")["numLateRecordsDropped"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_partial_matches_end_with_the_watermark(backend):
    with harness_of(order_and_pay(), backend) as harness:
        send(harness, ("k", "o", 3), ("l", "o", 5), ("l", "p", 14))
        harness.process_watermark("in", 12)
        assert harness.values("ended") == []
        harness.process_watermark("in", 13)
        assert harness.output("ended").records == [(("order=3", 13), 13)]
        harness.process_watermark("in", 20)
        assert harness.values("out") == [("order=5 pay=14", 14)]
        assert harness.values("ended") == [("order=3", 13)]


def test_a_match_without_what_must_not_follow_comes_with_the_end_of_its_window():
    pattern = (
        Pattern.begin("a")
        .where(kind("o"))
        .not_followed_by("n")
        .where(kind("p"))
        .within(Duration.of_millis(10))
    )
    with harness_of(pattern) as harness:
        send(harness, ("k", "o", 1), ("l", "o", 2), ("l", "p", 3))
        harness.process_watermark("in", 1000)
        assert harness.output("out").records == [(("a=1", 11), 11)]
        assert harness.values("ended") == []


def test_processing_time_takes_records_as_they_come():
    with harness_of(order_and_pay(), change=lambda found: found.in_processing_time()) as harness:
        harness.set_processing_time(100)
        harness.process_element("in", ("k", "o", 1))
        harness.set_processing_time(105)
        harness.process_element("in", ("k", "p", 2))
        harness.process_element("in", ("k", "o", 3))
        assert harness.output("out").records == [(("order=1 pay=2", 105), 105)]
        harness.set_processing_time(115)
        assert harness.values("ended") == [("order=3", 115)]


def test_processing_time_with_a_comparator_waits_for_the_millisecond():
    pattern = Pattern.begin("a").where(kind("o")).next("b").where(kind("p"))
    with harness_of(
        pattern,
        comparator=lambda x, y: (x[1] > y[1]) - (x[1] < y[1]),
        change=lambda found: found.in_processing_time(),
    ) as harness:
        harness.set_processing_time(100)
        harness.process_element("in", ("k", "p", 1))
        harness.process_element("in", ("k", "o", 2))
        assert harness.values("out") == []
        harness.set_processing_time(101)
        assert harness.values("out") == [("a=2 b=1", 100)]


def test_a_stream_without_keys_has_one_subtask():
    harness = harness_of(order_and_pay(), is_keyed=False)
    with harness:
        send(harness, ("k", "o", 1), ("l", "p", 2))
        harness.process_watermark("in", 5)
        assert harness.values("out") == [("order=1 pay=2", 2)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_matches_and_waiting_records_survive_a_snapshot(backend):
    pattern = (
        Pattern.begin("a")
        .where(kind("o"))
        .one_or_more()
        .followed_by("b")
        .where(kind("p"))
        .within(Duration.of_millis(50))
    )
    with harness_of(pattern, backend) as harness:
        send(harness, ("k", "o", 1), ("k", "o", 2), ("k", "o", 7))
        harness.process_watermark("in", 5)
        snapshot = harness.snapshot(1)
    restored = harness_of(pattern, backend)
    restored.open(snapshot)
    send(restored, ("k", "p", 9), ("l", "o", 9))
    restored.process_watermark("in", 10)
    expected = ["a=1+2+7 b=9", "a=1+2 b=9", "a=1 b=9", "a=2+7 b=9", "a=2 b=9", "a=7 b=9"]
    assert sorted(text for text, _ in restored.values("out")) == sorted(expected)
    restored.process_watermark("in", 59)
    # The loops could have continued.
    assert restored.values("ended") == [("a=1+2+7", 51), ("a=2+7", 52), ("a=7", 57), ("a=9", 59)]
    restored.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_matches_move_with_their_key_groups(backend):
    def subtask(number, parallelism):
        function = Texts()
        return KeyedOneInputStreamOperatorTestHarness(
            operators.MatchPattern(function, pattern=compiled_for(order_and_pay(), None)),
            lambda event: event[0],
            configuration={"state.backend.type": backend},
            subtask=number,
            parallelism=parallelism,
        )

    keys = [str(number) for number in range(20)]
    with subtask(0, 1) as harness:
        for key in keys:
            harness.process_element((key, "o", 1), 1)
        harness.process_watermark(5)
        for key in keys:
            harness.process_element((key, "p", 8), 8)
        snapshot = harness.snapshot(1)
    shares = []
    for number, part in enumerate(redistribute([snapshot], 2)):
        harness = subtask(number, 2)
        harness.initialize_state(part)
        with harness:
            harness.process_watermark(10)
            shares.append(len(harness.values))
            assert set(harness.values) <= {("order=1 pay=8", 8)}
    assert sum(shares) == len(keys)
    assert 0 not in shares


def test_a_longer_pattern_with_the_same_names_continues():
    begun = Pattern.begin("a").where(kind("o")).followed_by("b").where(kind("p"))
    with harness_of(begun) as harness:
        send(harness, ("k", "o", 1))
        harness.process_watermark("in", 5)
        snapshot = harness.snapshot(1)
    longer = begun.followed_by("c").where(kind("q"))
    restored = harness_of(longer)
    restored.open(snapshot)
    send(restored, ("k", "p", 6), ("k", "q", 7))
    restored.process_watermark("in", 10)
    assert restored.values("out") == [("a=1 b=6 c=7", 7)]
    restored.close()


def test_a_pattern_without_the_part_of_a_partial_match_is_refused():
    with harness_of(order_and_pay()) as harness:
        send(harness, ("k", "o", 1))
        harness.process_watermark("in", 5)
        snapshot = harness.snapshot(1)
    other = Pattern.begin("x").where(kind("o")).followed_by("y").where(kind("p"))
    restored = harness_of(other)
    restored.open(snapshot)
    send(restored, ("k", "p", 6))
    with pytest.raises(IllegalStateError, match="'pay'"):
        restored.process_watermark("in", 10)
    restored.close()


def test_nothing_is_kept_of_keys_without_partial_matches():
    with harness_of(order_and_pay()) as harness:
        send(harness, ("k", "x", 1), ("l", "o", 1), ("l", "p", 2), ("m", "o", 3))
        harness.process_watermark("in", 100)
        operator = next(
            operator for operator in harness._opened().operators if hasattr(operator, "entries")
        )
        assert len(operator.entries) == 0
        assert len(operator.waiting) == 0


def expiring(found):
    return found.with_ttl(Duration.of_millis(100))


def entries_of(harness, *tables):
    [operator] = [one for one in harness._opened().operators if hasattr(one, "entries")]
    return tuple(len(getattr(operator, table)) for table in tables)


@pytest.mark.parametrize("backend", BACKENDS)
def test_partial_matches_of_silent_keys_expire_also_after_a_restore(backend):
    pattern = Pattern.begin("a").where(kind("o")).followed_by("b").where(kind("p"))
    with harness_of(pattern, backend, change=expiring) as harness:
        harness.set_processing_time(0)
        send(harness, ("k", "o", 1), ("l", "o", 2), ("m", "x", 2))
        harness.process_watermark("in", 5)
        harness.set_processing_time(60)
        send(harness, ("l", "x", 6))
        harness.process_watermark("in", 10)
        harness.set_processing_time(99)
        assert entries_of(harness, "entries", "touched") == (2, 2)
        snapshot = harness.snapshot(1)
    restored = harness_of(pattern, backend, change=expiring)
    restored.open(snapshot)
    restored.set_processing_time(100)
    # The key with a later record lives as long after that.
    send(restored, ("k", "p", 11), ("l", "p", 11), ("l", "o", 12))
    restored.process_watermark("in", 20)
    assert restored.values("out") == [("a=2 b=11", 11)]
    restored.set_processing_time(199)
    assert entries_of(restored, "entries", "touched") == (1, 1)
    restored.set_processing_time(200)
    assert entries_of(restored, "entries", "touched", "waiting") == (0, 0, 0)
    # Expired partial matches do not time out.
    assert restored.values("ended") == []
    restored.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_times_to_live_move_with_their_key_groups(backend):
    """Each key expires in its new subtask as long after its last record as in the former one."""

    def subtask(number, parallelism):
        pattern = Pattern.begin("a").where(kind("o")).followed_by("b").where(kind("p"))
        return KeyedOneInputStreamOperatorTestHarness(
            operators.MatchPattern(Texts(), pattern=compiled_for(pattern, None), ttl_ms=100),
            lambda event: event[0],
            configuration={"state.backend.type": backend},
            subtask=number,
            parallelism=parallelism,
        )

    keys = [str(number) for number in range(20)]
    with subtask(0, 1) as harness:
        for now, some in ((0, keys[:10]), (60, keys[10:])):
            harness.set_processing_time(now)
            for key in some:
                harness.process_element((key, "o", 1 + now), 1 + now)
            harness.process_watermark(1 + now)
        snapshot = harness.snapshot(1)
    shares = []
    for number, part in enumerate(redistribute([snapshot], 2)):
        harness = subtask(number, 2)
        harness.initialize_state(part)
        with harness:
            share = []
            for now in (99, 100, 159, 160):
                harness.set_processing_time(now)
                share.append(len(harness.operator.entries))
            assert len(harness.operator.touched) == 0
        shares.append(share)
    assert [sum(counts) for counts in zip(*shares, strict=True)] == [20, 10, 10, 0]
    assert all(share[0] for share in shares)


@pytest.mark.parametrize("changes", [(None, expiring), (expiring, None)])
def test_a_time_to_live_may_be_set_and_removed_between_programs(changes):
    pattern = Pattern.begin("a").where(kind("o")).followed_by("b").where(kind("p"))
    with harness_of(pattern, change=changes[0]) as harness:
        harness.set_processing_time(0)
        send(harness, ("k", "o", 1), ("l", "o", 2))
        harness.process_watermark("in", 5)
        snapshot = harness.snapshot(1)
    restored = harness_of(pattern, change=changes[1])
    restored.open(snapshot)
    restored.set_processing_time(100)
    send(restored, ("k", "p", 6))
    restored.process_watermark("in", 10)
    assert restored.values("out") == [("a=1 b=6", 6)]
    send(restored, ("l", "x", 11))
    restored.process_watermark("in", 20)
    restored.set_processing_time(200)
    assert entries_of(restored, "entries") == ((0,) if changes[1] else (1,))
    restored.close()


def test_a_time_to_live_counts_in_processing_time_too():
    with harness_of(
        Pattern.begin("a").where(kind("o")).followed_by("b").where(kind("p")),
        change=lambda found: expiring(found.in_processing_time()),
    ) as harness:
        for now, event in ((0, ("k", "o", 1)), (50, ("k", "x", 2)), (149, ("k", "x", 3))):
            harness.set_processing_time(now)
            harness.process_element("in", event)
        assert entries_of(harness, "entries") == (1,)
        harness.set_processing_time(249)
        assert entries_of(harness, "entries", "touched") == (0, 0)


@pytest.mark.parametrize("ttl", [0, 100, Time.milliseconds(0), None])
def test_a_time_to_live_is_a_positive_duration(ttl):
    stream = PipelineTestHarness().source("in", EVENT)
    with pytest.raises(InvalidProgramError, match="with_ttl"):
        CEP.pattern(stream, order_and_pay()).with_ttl(ttl)


def test_conditions_are_functions_objects_and_expressions():
    class Simple(SimpleCondition):
        def filter(self, value):
            return value[1] == "o"

    class Iterative(IterativeCondition):
        def filter(self, value, ctx):
            assert ctx.get_events_for_pattern("b") == []
            return value[2] == ctx.first("a")[2] + 1 == ctx.last("b", "a")[2] + 1

    pattern = (
        Pattern.begin("a")
        .where(Simple())
        .next("b")
        .where(Iterative())
        .next("c")
        .where(field(1) == "p")
        .or_(field(2) > 100)
    )
    with harness_of(pattern) as harness:
        send(harness, ("k", "o", 1), ("k", "x", 2), ("k", "p", 3), ("k", "o", 4), ("k", "x", 5))
        harness.process_watermark("in", 5)
        send(harness, ("k", "x", 101))
        harness.process_watermark("in", 200)
        assert [text for text, _ in harness.values("out")] == ["a=1 b=2 c=3", "a=4 b=5 c=101"]


def test_an_expression_is_checked_when_the_program_is_built():
    harness = PipelineTestHarness()
    row = Types.ROW_NAMED(["price"], [Types.INT()])
    stream = harness.source("in", row)
    for condition in (field("prize") == 1, field("price") + 1):
        with pytest.raises(InvalidProgramError, match="where"):
            CEP.pattern(stream, Pattern.begin("a").where(condition)).process(Texts())


@dataclass
class Login:
    user: str
    is_good: bool


def test_expressions_read_the_fields_of_annotated_records():
    good = Pattern.begin("good").where(field("is_good"))
    logins = [Login("ada", False), Login("bob", True)]
    assert feed_pattern(good, [(login, 1) for login in logins]).matches == [{"good": [logins[1]]}]

    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(logins).key_by("user")
    CEP.pattern(stream, good).process(Texts())
    misspelt = Pattern.begin("good").where(field("is_god"))
    for build in (
        lambda: feed_pattern(misspelt, [(logins[0], 1)]),
        lambda: CEP.pattern(stream, misspelt).process(Texts()),
    ):
        with pytest.raises(InvalidProgramError, match="no field 'is_god'; did you mean 'is_good'"):
            build()


def test_functions_of_matches_have_their_parameters():
    stream = PipelineTestHarness().source("in", EVENT)
    found = CEP.pattern(stream, Pattern.begin("a"))
    for build, words in (
        (lambda: found.select(lambda match, ctx: 1), "select takes a function of a match; got"),
        (
            lambda: found.flat_select(lambda a, b: [a, b]),
            "flat_select takes a function of a match; got",
        ),
        (
            lambda: found.select(len, timed_out=lambda match: 1, timed_out_tag=ENDED),
            "timed_out takes a function of a partial match and its end",
        ),
    ):
        with pytest.raises(InvalidProgramError, match=words):
            build()


def test_a_record_without_timestamp_is_refused():
    with (
        harness_of(order_and_pay()) as harness,
        pytest.raises(InvalidProgramError, match="assign_timestamps"),
    ):
        harness.process_element("in", ("k", "o", 1))


def test_select_and_flat_select():
    harness = PipelineTestHarness()
    stream = harness.source("in", EVENT).key_by(lambda event: event[0])
    patterns = CEP.pattern(stream, order_and_pay())
    once = patterns.select(
        lambda match: match["pay"][0][2],
        Types.INT(),
        timed_out=lambda match, time: (match["order"][0][2], time),
        timed_out_tag=ENDED,
    )
    twice = patterns.flat_select(lambda match: [match["order"][0][2], match["pay"][0][2]])
    harness.sink("once", once)
    harness.sink("twice", twice)
    harness.sink("ended", once.get_side_output(ENDED))
    with harness:
        send(harness, ("k", "o", 1), ("k", "p", 2), ("k", "o", 3))
        harness.process_watermark("in", 50)
        assert harness.values("once") == [2]
        assert harness.values("twice") == [1, 2]
        assert harness.values("ended") == [(3, 13)]


def test_subtypes():
    pattern = Pattern.begin("a").subtype(str).next("b").subtype(int)
    harness = PipelineTestHarness()
    harness.sink("out", CEP.pattern(harness.source("in"), pattern).select(lambda match: match))
    with harness:
        for time, value in enumerate(["x", "y", 3, 4]):
            harness.process_element("in", value, time)
        harness.process_watermark("in", 9)
        assert harness.values("out") == [{"a": ["y"], "b": [3]}]


def test_functions_get_matches_of_their_own():
    class Change(PatternProcessFunction):
        def process_match(self, match, ctx):
            match["a"][0].append("changed")
            yield len(match["a"][0])

    pattern = (
        Pattern.begin("a")
        .where(lambda value: value[0] == 0)
        .followed_by_any("b")
        .where(lambda value: value[0] == 1)
    )
    harness = PipelineTestHarness()
    harness.sink("out", CEP.pattern(harness.source("in"), pattern).process(Change()))
    with harness:
        for time, value in enumerate([[0], [1], [1]]):
            harness.process_element("in", value, time)
        harness.process_watermark("in", 9)
        assert harness.values("out") == [2, 2]


def test_timeouts_go_to_side_outputs_alone():
    class Wrong(Texts):
        def process_timed_out_match(self, match, ctx):
            yield "no pair"

    harness = PipelineTestHarness()
    stream = harness.source("in", EVENT)
    harness.sink("out", CEP.pattern(stream, order_and_pay()).process(Wrong()))
    with harness:
        send(harness, ("k", "o", 1))
        with pytest.raises(InvalidProgramError, match="OutputTag"):
            harness.process_watermark("in", 50)


@pytest.mark.parametrize("argument", [3, "a", None, int, lambda: True, lambda a, b, c: True])
def test_invalid_conditions_are_rejected(argument):
    with pytest.raises(InvalidProgramError, match="where"):
        Pattern.begin("a").where(argument)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Pattern.begin("a:b"),
        lambda: Pattern.begin(""),
        lambda: Pattern.begin("a").not_next(Pattern.begin("b")),
        lambda: SkipStrategy.skip_to_next().throw_exception_on_miss(),
        lambda: Pattern.begin(Pattern.begin("a")).where(lambda value: True),
        lambda: Pattern.begin("a").times(True),
        lambda: Pattern.begin("a").within(Duration.of_seconds(-1)),
        lambda: Pattern.begin("a").one_or_more(within=Time.seconds(0)),
        lambda: feed_pattern(Pattern.begin(Pattern.begin("a").optional()).one_or_more(), []),
    ],
)
def test_malformed_patterns(build):
    """Further patterns than those that Flink rejects too, which are recorded."""
    with pytest.raises(MalformedPatternError):
        build()


def test_results_do_not_depend_on_what_a_small_cache_evicts():
    """The store evicts keys between any two records: 16 entries of long texts fill the cache."""
    random = Random(5)
    events = [
        (f"{random.randrange(60):05000}", random.choice("opx"), number + random.randrange(12))
        for number in range(1, 1500)
    ]
    found = []
    for options in ({}, {"state.backend.type": "rocksdb", "penstock.rocksdb.cache.size": "64 kb"}):
        harness = PipelineTestHarness(options)
        stream = harness.source("in", EVENT).key_by(lambda event: event[0])
        matches = CEP.pattern(stream, order_and_pay(40)).with_ttl(Duration.of_hours(1))
        matches = matches.process(Texts())
        harness.sink("out", matches)
        harness.sink("ended", matches.get_side_output(ENDED))
        with harness:
            for number, event in enumerate(events):
                harness.process_element("in", event, event[2])
                if number % 7 == 0:
                    harness.process_watermark("in", number)
            harness.process_watermark("in", 2000)
            found.append((harness.values("out"), harness.values("ended")))
    assert min(map(len, found[0])) > 100
    assert found[0] == found[1]
