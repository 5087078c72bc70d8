"""State with a time to live: what is visible when, and the fate of expired entries.

Method: a keyed function in virtual time, all of whose states live 600 ms.  PyFlink 2.3.0 showed the
expected results for the same accesses at the same times, without cleanup in the background.
"""

import dataclasses
import itertools
from dataclasses import dataclass

import pytest
from penstock.common import Time, Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.taskexecutor.rocksdb.expired_rows import ExpiredRows
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.testing import KeyedOneInputStreamOperatorTestHarness
from support.aggregates import Sum

UPDATES, VISIBILITIES = StateTtlConfig.UpdateType, StateTtlConfig.StateVisibility


class AllStates(KeyedProcessFunction):
    """Applies the action of an element (key, action, number) to every state."""

    def __init__(self, ttl):
        self.ttl = ttl

    def open(self, runtime_context):
        number = Types.LONG()
        descriptors = [
            ValueStateDescriptor("v", number),
            ListStateDescriptor("l", number),
            MapStateDescriptor("m", number, number),
            ReducingStateDescriptor("r", lambda a, b: a + b, number),
            AggregatingStateDescriptor("a", Sum(), number),
        ]
        for descriptor in descriptors:
            if self.ttl is not None:
                descriptor.enable_time_to_live(self.ttl)
        self.v = runtime_context.get_state(descriptors[0])
        self.l = runtime_context.get_list_state(descriptors[1])
        self.m = runtime_context.get_map_state(descriptors[2])
        self.r = runtime_context.get_reducing_state(descriptors[3])
        self.a = runtime_context.get_aggregating_state(descriptors[4])

    def process_element(self, element, ctx):
        _, action, number = element
        if action == "read":
            pairs = sorted(self.m.items())
            yield self.v.value(), list(self.l.get()), pairs, self.r.get(), self.a.get()
        elif action == "look up":
            yield [self.m.contains(number), self.m.contains(number), self.m.get(number)]
        elif action == "is empty":
            yield self.m.is_empty()
        elif action == "value":
            yield self.v.value()
        elif action == "write":
            self.v.update(number)
            self.l.update([number, number * 10])
            self.m.put(number, number)
            self.r.add(number)
            self.a.add(number)
        elif action == "add":
            self.v.update(number)
            self.l.add(number)
            self.m.put_all({number: number})
            self.r.add(number)
            self.a.add(number)


def ttl(update="OnCreateAndWrite", visibility="NeverReturnExpired", cleanup=None):
    builder = (
        StateTtlConfig.new_builder(Time.milliseconds(600))
        .set_update_type(UPDATES[update])
        .set_state_visibility(VISIBILITIES[visibility])
    )
    return (cleanup or StateTtlConfig.Builder.disable_cleanup_in_background)(builder).build()


CONFIGURATION = {}


@pytest.fixture(params=["hashmap", "rocksdb"], autouse=True)
def backend(request, monkeypatch):
    """Run every test with each state backend."""
    monkeypatch.setitem(CONFIGURATION, "state.backend.type", request.param)
    return request.param


def harness(config, configuration=None):
    return KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(AllStates(config)),
        lambda element: element[0],
        key_type=Types.LONG(),
        configuration=CONFIGURATION | (configuration or {}),
    )


@dataclass
class Clock:
    """A harness and its time."""

    test: KeyedOneInputStreamOperatorTestHarness
    now_ms: int = 0

    def after(self, pause_ms, *element):
        """Return the results of a record that arrives so long after the last one."""
        self.now_ms += pause_ms
        self.test.set_processing_time(self.now_ms)
        before = len(self.test.values)
        self.test.process_element(element)
        return self.test.values[before:]


NOTHING = (None, [], [], None, None)
SEQUENCE = [
    (0, "write", 1), (200, "read", 0), (200, "read", 0), (300, "read", 0), (0, "read", 0),
    (0, "write", 2), (300, "read", 0), (200, "add", 3), (200, "read", 0), (450, "read", 0),
    (0, "read", 0), (900, "read", 0), (0, "read", 0),
]  # fmt: skip
ONE = (1, [1, 10], [(1, 1)], 1, 1)
ALL = (3, [2, 20, 3], [(1, 1), (2, 2), (3, 3)], 6, 6)
SHOWN = {
    ("OnCreateAndWrite", "NeverReturnExpired"): [
        ONE, ONE, NOTHING, NOTHING, (2, [2, 20], [(2, 2)], 2, 2), (3, [3], [(3, 3)], 5, 5),
        NOTHING, NOTHING, NOTHING, NOTHING,
    ],
    ("OnCreateAndWrite", "ReturnExpiredIfNotCleanedUp"): [
        ONE, ONE, ONE, NOTHING, (2, [2, 20], [(2, 2)], 2, 2),
        (3, [2, 20, 3], [(2, 2), (3, 3)], 5, 5), (3, [2, 20, 3], [(3, 3)], 5, 5),
        NOTHING, NOTHING, NOTHING,
    ],
    ("OnReadAndWrite", "NeverReturnExpired"): [
        ONE, ONE, ONE, ONE, (2, [2, 20], [(1, 1), (2, 2)], 3, 3), ALL, ALL, ALL, NOTHING, NOTHING,
    ],
    ("OnReadAndWrite", "ReturnExpiredIfNotCleanedUp"): [
        ONE, ONE, ONE, ONE, (2, [2, 20], [(1, 1), (2, 2)], 3, 3), ALL, ALL, ALL, ALL, NOTHING,
    ],
}  # fmt: skip


@pytest.mark.parametrize(("update", "visibility"), SHOWN)
def test_visible_values_are_those_of_pyflink(update, visibility):
    with harness(ttl(update, visibility)) as test:
        clock = Clock(test)
        shown = [clock.after(pause, 7, action, n) for pause, action, n in SEQUENCE]
    assert [found[0] for found in shown if found] == SHOWN[update, visibility]


@pytest.mark.parametrize(("visibility", "seen"), [
    ("NeverReturnExpired", [False, False, None]),
    ("ReturnExpiredIfNotCleanedUp", [True, False, None]),
])  # fmt: skip
def test_an_expired_pair_of_a_map_is_removed_when_it_is_met(visibility, seen):
    with harness(ttl(visibility=visibility)) as test:
        clock = Clock(test)
        clock.after(0, 7, "write", 4)
        assert clock.after(600, 7, "look up", 4) == [seen]


@pytest.mark.parametrize(("visibility", "is_empty", "read"), [
    ("NeverReturnExpired", True, NOTHING),
    ("ReturnExpiredIfNotCleanedUp", False, ONE),
])  # fmt: skip
@pytest.mark.parametrize("update", ["OnCreateAndWrite", "OnReadAndWrite"])
def test_asking_whether_a_map_is_empty_changes_nothing(update, visibility, is_empty, read):
    """The check extends no entry's life, and an expired entry can still be returned once."""
    with harness(ttl(update, visibility)) as test:
        clock = Clock(test)
        assert clock.after(0, 7, "is empty", 0) == [True]
        clock.after(0, 7, "write", 1)
        assert clock.after(300, 7, "is empty", 0) == [False]
        assert clock.after(300, 7, "is empty", 0) == [is_empty]
        assert clock.after(0, 7, "is empty", 0) == [is_empty]
        assert clock.after(0, 7, "read", 0) == [read]
        assert clock.after(0, 7, "read", 0) == [NOTHING]


def test_a_disabled_time_to_live_is_none():
    with harness(ttl("Disabled")) as test:
        clock = Clock(test)
        clock.after(0, 7, "write", 1)
        assert clock.after(10_000, 7, "read", 0) == [ONE]


in_memory = pytest.mark.parametrize("backend", ["hashmap"], indirect=True)
in_rocksdb = pytest.mark.parametrize("backend", ["rocksdb"], indirect=True)


# Cleanup ----------------------------------------------------------------------------------------


def left_after_accesses(cleanup, num_accesses, action="value"):
    """Return how many of the 100 entries of 20 keys remain after accesses to another key."""
    with harness(ttl(cleanup=cleanup)) as test:
        clock = Clock(test)
        for key in range(20):
            clock.after(0, key, "write", 1)
        clock.after(600, 99, "nothing", 0)
        for _ in range(num_accesses):
            clock.after(0, 99, action, 0)
        return test.num_keyed_state_entries


def test_each_access_looks_at_a_few_entries_of_the_state():
    """Only of ``v``, the state that is used."""

    def two(builder):
        incremental = builder.cleanup_incrementally(2, run_cleanup_for_every_record=False)
        return incremental.disable_cleanup_in_background()

    assert [left_after_accesses(two, n) for n in (0, 1, 3, 12, 50)] == [100, 98, 94, 80, 80]


@in_memory
def test_each_access_checks_five_entries_by_default():
    def nothing_said(builder):
        return builder

    assert [left_after_accesses(nothing_said, n) for n in (1, 2)] == [95, 90]


def test_nothing_is_removed_in_the_background_when_that_is_disabled():
    assert left_after_accesses(StateTtlConfig.Builder.disable_cleanup_in_background, 50) == 100


@in_memory
def test_rocksdbs_filter_has_no_effect_on_state_in_memory():
    """As in Flink, where the default still applies."""

    def in_rocksdb(builder):
        return builder.cleanup_in_rocksdb_compact_filter(1000)

    def in_rocksdb_alone(builder):
        return in_rocksdb(builder).disable_cleanup_in_background()

    assert left_after_accesses(in_rocksdb, 1) == 95
    assert left_after_accesses(in_rocksdb_alone, 50) == 100


NUM_KEYS = 500


def compacted(period=None, query_rows=1000):
    """Return a configuration under which only rows of the database are checked."""

    def cleanup(builder):
        return builder.cleanup_in_rocksdb_compact_filter(
            query_rows, period
        ).disable_cleanup_in_background()

    return ttl(cleanup=cleanup)


@in_rocksdb
def test_rows_of_a_database_are_removed_as_others_are_written():
    """For each state, whatever its rows contain; unexpired rows stay."""
    with harness(compacted()) as test:
        clock = Clock(test)
        for key in range(NUM_KEYS):
            clock.after(0, key, "write", 1)
        test.snapshot(1)
        clock.after(400, 0, "add", 2)
        test.snapshot(2)
        clock.after(200, 99, "nothing", 0)
        left = []
        for number in range(3, 9):
            test.snapshot(number)
            left.append({name: len(list(of_state(test, name))) for name in "vlmra"})
        assert left[-1] == dict.fromkeys("vlmra", 1)
        # Incremental cleanup has not reached them; the values written last are left.
        assert list(of_state(test, "l")) == [(0, [2])]
        assert list(of_state(test, "m")) == [(0, [2])]


def of_state(test, name):
    """Yield the keys of a state, and its values; of a map, the keys.

    As they are stored, expired or not.
    """
    for entries in test.snapshot(1000).entries(name).values():
        for _, key, stored in entries:
            yield key, [getattr(one, "value", one) for one in stored] if name in "lm" else stored


@in_rocksdb
def test_nothing_is_removed_from_a_database_when_that_is_disabled():
    with harness(ttl()) as test:
        clock = Clock(test)
        for key in range(20):
            clock.after(0, key, "write", 1)
        clock.after(600, 99, "nothing", 0)
        for number in range(5):
            test.snapshot(number)
        assert test.num_keyed_state_entries == 100


def left_when_expired(test, clock):
    """Return how many of 1,200 expired values are in the database after one checkpoint."""
    for key in range(1200):
        clock.after(0, key, "write", 1)
    test.snapshot(1)
    clock.after(600, 9999, "nothing", 0)
    return sum(map(len, test.snapshot(2).entries("v").values()))


@in_rocksdb
@pytest.mark.parametrize(("period_ms", "num_left"), [(0, 200), (1_000_000, 200), (500, 0)])
def test_all_rows_of_a_database_are_looked_at_after_a_time(period_ms, num_left):
    """However few rows are written."""
    with harness(compacted(Time.milliseconds(period_ms))) as test:
        clock = Clock(test)
        for key in range(1200):
            clock.after(0, key, "value", 0)
            test.process_element((key, "value", 0))
        assert left_when_expired(test, clock) == num_left


FILTER_QUERY_ROWS = "state.backend.rocksdb.compaction.filter.query-time-after-num-entries"
FILTER_PERIOD = "state.backend.rocksdb.compaction.filter.periodic-compaction-time"


def choosing_nothing(builder):
    return builder


def by_rows_alone(builder):
    return builder.cleanup_in_rocksdb_compact_filter(1000, Time.milliseconds(0))


@in_rocksdb
@pytest.mark.parametrize(
    ("cleanup", "period", "num_left"),
    [
        (choosing_nothing, None, 200),
        (choosing_nothing, "500 ms", 0),
        (by_rows_alone, "500 ms", 200),
    ],
)
def test_an_option_says_when_all_rows_are_looked_at(cleanup, period, num_left):
    """Unless the state sets it itself."""
    options = {} if period is None else {FILTER_PERIOD: period}
    with harness(ttl(cleanup=cleanup), options) as test:
        assert left_when_expired(test, Clock(test)) == num_left


@in_rocksdb
@pytest.mark.parametrize(("rows", "num_left"), [(None, 100), ("10", 49), ("100", 100)])
def test_an_option_says_how_often_the_clock_is_read(rows, num_left, monkeypatch):
    """100 rows, and a clock that advances by 100 ms at each reading: they expire after 600 ms."""
    options = {} if rows is None else {FILTER_QUERY_ROWS: rows}
    began = ExpiredRows.__init__

    def with_ticking_clock(self, store, state, ttl):
        times = itertools.count(0, 100)
        began(self, store, state, dataclasses.replace(ttl, now=lambda: next(times)))

    monkeypatch.setattr(ExpiredRows, "__init__", with_ticking_clock)
    with harness(ttl(cleanup=choosing_nothing), options) as test:
        clock = Clock(test)
        for key in range(100):
            clock.after(0, key, "write", 1)
        snapshot = test.snapshot(1)
        assert sum(map(len, snapshot.entries("v").values())) == num_left


@in_rocksdb
@pytest.mark.parametrize("query_rows", [0, -1])
def test_a_clock_that_is_never_read_is_refused(query_rows):
    with pytest.raises(InvalidProgramError, match=f"at least one entry, got {query_rows}"):
        compacted(query_rows=query_rows)


def test_each_record_looks_at_a_few_entries_of_each_state():
    """Even if the function uses no state; of five states, two entries each."""

    def every_record(builder):
        incremental = builder.cleanup_incrementally(2, run_cleanup_for_every_record=True)
        return incremental.disable_cleanup_in_background()

    # The element that arrives after the expiry is one, too.
    assert left_after_accesses(every_record, 0) == 90
    assert left_after_accesses(every_record, 3, "nothing") == 60


def test_cleaning_up_keeps_what_has_not_expired():
    """Each element of lists and maps separately; cleanup continues while entries come and go."""

    def five(builder):
        return builder.cleanup_incrementally(5, run_cleanup_for_every_record=True)

    with harness(ttl(cleanup=five)) as test:
        clock = Clock(test)
        for key in range(20):
            clock.after(0, key, "write", 1)
        for key in range(0, 20, 2):
            clock.after(30, key, "add", 5)
        for pause_ms in (310, *[0] * 20):
            clock.after(pause_ms, 99, "nothing", 0)
        entries = {name: test.snapshot(1).entries(name) for name in "vlmra"}
        assert {name: sum(map(len, of.values())) for name, of in entries.items()} == dict.fromkeys(
            "vlmra", 10
        )
        assert clock.after(0, 18, "read", 0) == [(5, [5], [(5, 5)], 6, 6)]
        assert clock.after(0, 17, "read", 0) == [NOTHING]


# Snapshots --------------------------------------------------------------------------------------


def kept_in_snapshot(cleanup):
    with harness(ttl(cleanup=cleanup)) as test:
        clock = Clock(test)
        clock.after(0, 1, "write", 1)
        clock.after(400, 2, "write", 2)
        clock.after(0, 1, "add", 3)
        clock.after(300, 3, "nothing", 0)
        snapshot = test.snapshot(1)
        plain = {}
        for name in "vlmra":
            for entries in snapshot.entries(name).values():
                for _, key, stored in entries:
                    plain[name, key] = (
                        [aged.value for aged in stored]
                        if isinstance(stored, list)
                        else sorted(stored)
                        if isinstance(stored, dict)
                        else stored.value
                    )
        return plain


def test_full_snapshots_leave_out_what_has_expired():
    def full(builder):
        return builder.cleanup_full_snapshot().disable_cleanup_in_background()

    unfiltered = kept_in_snapshot(StateTtlConfig.Builder.disable_cleanup_in_background)
    assert unfiltered["l", 1] == [1, 10, 3]
    assert unfiltered["m", 1] == [1, 3]
    filtered = kept_in_snapshot(full)
    assert filtered["l", 1] == [3]
    assert filtered["m", 1] == [3]
    assert filtered["v", 1] == 3


@pytest.mark.parametrize("incremental", ["false", "true"])
def test_a_state_that_has_expired_is_no_part_of_a_snapshot(incremental):
    """Nor of one that is based on a snapshot with it, if another entry has changed there."""

    def full(builder):
        return builder.cleanup_full_snapshot().disable_cleanup_in_background()

    configuration = {"execution.checkpointing.incremental": incremental}
    with harness(ttl(cleanup=full), configuration) as test:
        clock = Clock(test)
        for key in range(50):
            clock.after(0, key, "write", 1)
        first = test.snapshot(1)
        assert sum(map(len, first.entries("v").values())) == 50
        clock.after(600, 99, "write", 2)
        second = test.snapshot(2)
        assert [entry[1] for of in second.entries("v").values() for entry in of] == [99]


# Between savepoint and restore -------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False])
def test_a_time_to_live_may_be_added_or_taken_away(before):
    """As in Flink from 2.2 on: entries without one live on from then."""
    old, new = harness(ttl() if before else None), harness(None if before else ttl())
    with old:
        Clock(old).after(0, 7, "write", 1)
        snapshot = old.snapshot(1)
    new.set_processing_time(1000)
    new.initialize_state(snapshot)
    with new:
        clock = Clock(new, 1000)
        assert clock.after(599, 7, "read", 0) == [ONE]
        assert clock.after(1, 7, "read", 0) == [ONE if before else NOTHING]
        again = new.snapshot(2)
    third = harness(None if before else ttl())
    third.initialize_state(again)
    with third:
        third.set_processing_time(1600)
        assert Clock(third, 1600).after(0, 7, "read", 0) == [ONE if before else NOTHING]


def test_time_to_live_continues_through_a_restore():
    with harness(ttl()) as old:
        Clock(old, 100).after(0, 7, "write", 1)
        snapshot = old.snapshot(1)
    new = harness(ttl("OnCreateAndWrite", "ReturnExpiredIfNotCleanedUp"))
    new.initialize_state(snapshot)
    with new:
        assert Clock(new, 699).after(0, 7, "read", 0) == [ONE]
        assert Clock(new, 700).after(0, 7, "read", 0) == [ONE]
        assert Clock(new, 700).after(0, 7, "read", 0) == [NOTHING]


def test_state_that_belongs_to_no_key_does_not_expire(caplog):
    """As in Flink; here a warning says so, once."""
    descriptor = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
    descriptor.enable_time_to_live(ttl())
    backend = OperatorStateBackend()
    for _ in range(2):
        backend.broadcast_state(descriptor)
    backend.list_state(descriptor)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["state 'rules' belongs to no key: its time to live has no effect"] * 2


def test_a_negative_period_is_refused():
    with pytest.raises(InvalidProgramError, match="cannot be negative, got -5 ms"):
        compacted(Time.milliseconds(-5))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StateTtlConfig.new_builder(5), "ttl must be a Time, got 5"),
        (
            lambda: builder().set_update_type("OnReadAndWrite"),
            "UpdateType, got 'OnR",
        ),
        (lambda: builder().set_state_visibility(1), "a StateTtlConfig.StateVisibility, got 1"),
        (lambda: builder().set_ttl_time_characteristic(1), "TtlTimeCharacteristic, got 1"),
        (
            lambda: builder().cleanup_incrementally("5", False),
            "cleanup_size must be a whole",
        ),
        (lambda: builder().cleanup_in_rocksdb_compact_filter(5, 7), "must be a Time, got 7"),
        (lambda: descriptor().enable_time_to_live(builder()), "state 'v': .* must be a StateTtl"),
        (
            lambda: descriptor().enable_time_to_live(Time.seconds(1)),
            "build.. creates one",
        ),
    ],
)
def test_invalid_times_to_live_are_rejected_at_the_call(make, says):
    with pytest.raises(WrongArgumentError, match=says):
        make()


def builder():
    return StateTtlConfig.new_builder(Time.seconds(1))


def descriptor():
    return ValueStateDescriptor("v", Types.LONG())


@pytest.mark.parametrize("size", [0, -1])
def test_a_cleanup_of_no_entries_is_refused(size):
    builder = StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(size, True)
    with pytest.raises(InvalidProgramError, match=f"at least one entry.*{size}"):
        builder.build()
