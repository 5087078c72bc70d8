"""Joins without windows emit what a join of the collections would emit.

Method: random additions and removals go through a program with virtual time, which is stopped and
restored in the middle; the changes are applied to a collection, which is compared with a model.
"""

import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from penstock.common import Duration, Time, Types
from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.datastream.functions import FlatJoinFunction, JoinFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions import argument, as_row, field
from penstock.testing import PipelineTestHarness

END = 2**63 - 1
SIDES = ("left", "right")
MINUTE = TumblingEventTimeWindows.of(Time.minutes(1))


class Item(NamedTuple):
    key: str
    number: int


@dataclass
class Pair:
    left: int | None
    right: int | None


def pair(left, right) -> Pair:
    return Pair(left and left[1], right and right[1])


def joined(build, events, restarts=(), end=END):
    """Return the results of a program that is restored from a snapshot before some of the events.

    An event is a side, a record and a timestamp; or None, a watermark and any value.
    """
    found, restored = [], None
    starts = [0, *restarts, len(events)]
    for start, stop in itertools.pairwise(starts):
        harness = PipelineTestHarness()
        left, right = (harness.source(side) for side in SIDES)
        harness.sink("out", build(left, right))
        harness.open(restored)
        for side, record, timestamp in events[start:stop]:
            if side is None:
                for source in SIDES:
                    harness.process_watermark(source, record)
            else:
                harness.process_element(side, record, timestamp)
        if stop != len(events):
            restored = harness.snapshot(1)
        elif end is not None:
            for source in SIDES:
                harness.process_watermark(source, end)
        found += harness.values("out")
        harness.close()
    return found


def applied(changes):
    rows = Counter()
    for row in changes:
        values = tuple(row)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            rows[values] += 1
        else:
            assert rows[values] > 0, (row, rows)
            rows[values] -= 1
    return sorted(rows.elements(), key=repr)


def model(left, right, how):
    found = [(one[1], other[1]) for one in left for other in right if one[0] == other[0]]
    lonely = {
        "left": [(one[1], None) for one in left if not any(one[0] == o[0] for o in right)],
        "right": [(None, other[1]) for other in right if not any(other[0] == o[0] for o in left)],
    }
    for side in SIDES:
        found += lonely[side] if how in (side, "full") else []
    return sorted(found, key=repr)


def changing(seed, count=80):
    """Draw random events, and the rows of both sides that remain at the end."""
    numbers = random.Random(seed)
    there = {"left": [], "right": []}
    events = []
    for number in range(count):
        side = numbers.choice(SIDES)
        rows = there[side]
        if rows and numbers.random() < 0.35:
            row = rows.pop(numbers.randrange(len(rows)))
            kind = numbers.choice([RowKind.DELETE, RowKind.UPDATE_BEFORE])
        else:
            row = Row(numbers.choice("abc"), number)
            kind = numbers.choice([RowKind.INSERT, RowKind.UPDATE_AFTER])
            rows.append(row)
        events.append((side, Row.of_kind(kind, *row), None))
    return events, there["left"], there["right"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_outer_joins_of_changing_sides(seed, how):
    events, left, right = changing(seed)

    def build(one, other):
        by_key = one.join(other).where(lambda row: row[0]).equal_to(lambda row: row[0])
        return by_key.apply(pair, how=how)

    changes = joined(build, events, restarts=[25, 50])
    assert applied(changes) == model(left, right, how)


@pytest.mark.parametrize("seed", range(3))
def test_inner_joins_of_changing_sides(seed):
    events, left, right = changing(seed)

    def build(one, other):
        by_key = one.join(other).where(lambda row: row[0]).equal_to(lambda row: row[0])
        return by_key.apply(lambda a, b: Row(a[1], b[1]))

    assert applied(joined(build, events, restarts=[40])) == model(left, right, "inner")


def insertions(seed, count=50, late=0):
    numbers = random.Random(seed)
    events = []
    for at in range(0, count * 10, 10):
        time = max(0, at - numbers.randrange(30))
        events.append((numbers.choice(SIDES), Item(numbers.choice("ab"), len(events)), time))
        if at % 50 == 0:
            events.append((None, at - 30, None))
    return events


def test_an_inner_join_emits_the_results_themselves():
    events = insertions(1)

    def build(one, other):
        return one.join(other).where("key").equal_to("key").apply(pair)

    found = joined(build, events, restarts=[20])
    sides = [[record for side, record, _ in events if side == name] for name in SIDES]
    assert all(type(result) is Pair for result in found)
    assert sorted(((p.left, p.right) for p in found), key=repr) == model(*sides, "inner")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("deadline_ms", [0, 60])
def test_joins_with_a_deadline_take_nothing_back(seed, how, deadline_ms):
    events = insertions(seed)

    def build(one, other):
        by_key = one.join(other).where("key").equal_to("key")
        return by_key.apply(pair, how=how, deadline=Time.milliseconds(deadline_ms))

    found = joined(build, events, restarts=[20, 45])
    left, right = (
        [(record, time) for side, record, time in events if side == name] for name in SIDES
    )
    expected, met = [], set()
    for (one, at), (other, then) in itertools.product(left, right):
        if one.key == other.key and abs(at - then) <= deadline_ms:
            expected.append((one.number, other.number))
            met |= {one.number, other.number}
    if how in ("left", "full"):
        expected += [(one.number, None) for one, _ in left if one.number not in met]
    if how in ("right", "full"):
        expected += [(None, other.number) for other, _ in right if other.number not in met]
    assert sorted(((p.left, p.right) for p in found), key=repr) == sorted(expected, key=repr)


def test_a_deadline_passes_by_the_clock_without_timestamps():
    harness = PipelineTestHarness()
    left, right = (harness.source(side) for side in SIDES)
    by_key = left.join(right).where("key").equal_to("key")
    harness.sink("out", by_key.apply(pair, how="left", deadline=Duration.of_seconds(1)))
    with harness:
        harness.process_element("left", Item("a", 1))
        harness.process_element("left", Item("b", 2))
        harness.process_element("right", Item("a", 3))
        harness.set_processing_time(999)
        assert harness.values("out") == [Pair(1, 3)]
        harness.set_processing_time(1000)
        assert harness.values("out") == [Pair(1, 3), Pair(2, None)]


def test_a_late_record_has_no_deadline_left():
    events = [(None, 100, None), ("left", Item("a", 1), 50), ("left", Item("a", 2), 95)]

    def build(one, other):
        by_key = one.join(other).where("key").equal_to("key")
        return by_key.apply(pair, how="left", deadline=Time.milliseconds(10))

    assert joined(build, events, end=None) == [Pair(1, None)]


def test_state_of_a_side_expires():
    harness = PipelineTestHarness()
    left, right = (harness.source(side) for side in SIDES)
    by_key = left.join(right).where("key").equal_to("key")
    harness.sink("out", by_key.apply(pair, ttl=(None, Time.seconds(10))))
    with harness:
        harness.process_element("right", Item("a", 1))
        harness.process_element("left", Item("a", 2))
        harness.set_processing_time(20_000)
        harness.process_element("left", Item("a", 3))
        harness.process_element("right", Item("a", 4))
        assert harness.values("out") == [Pair(2, 1), Pair(2, 4), Pair(3, 4)]


class Flat(FlatJoinFunction):
    def join(self, first, second):
        return [first.number] * second.number


class Keyed(JoinFunction):
    def join(self, first, second, ctx):
        return ctx.key, ctx.window


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Flat(), [1, 1]),
        (Keyed(), [("a", None)]),
        (lambda one, other, context: context.key, ["a"]),
        (as_row(both=argument(0)[1] + argument(1)[1]), [Row(both=3)]),
    ],
)
def test_functions_of_all_kinds(function, expected):
    events = [("left", Item("a", 1), None), ("right", Item("a", 2), None)]
    build = lambda a, b: a.join(b).where("key").equal_to("key").apply(function)  # noqa: E731
    assert joined(build, events) == expected


def test_keys_of_several_fields():
    events = [("left", Item("a", 1), None), ("right", Item("a", 1), None)]
    events += [("right", Item("a", 2), None)]
    build = lambda a, b: (  # noqa: E731
        a.join(b).where("key", "number").equal_to("key", "number").apply(pair)
    )
    assert joined(build, events) == [Pair(1, 1)]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_windows_join_without_a_partner(how):
    events = insertions(2)

    def build(one, other):
        windows = TumblingEventTimeWindows.of(Time.milliseconds(50))
        by_key = one.join(other).where("key").equal_to("key").window(windows)
        return by_key.apply(pair, how=how)

    expected = []
    groups = {(record.key, time // 50) for side, record, time in events if side}
    for key, window in groups:
        sides = [
            [r for s, r, time in events if s == name and (r.key, time // 50) == (key, window)]
            for name in SIDES
        ]
        expected += model(*sides, how)
    found = joined(build, [event for event in events if event[0]])
    assert sorted(((p.left, p.right) for p in found), key=repr) == sorted(expected, key=repr)


def test_functions_of_windows_see_key_and_window():
    events = [("left", Item("a", 1), 10), ("right", Item("a", 2), 20)]

    def in_join(one, other):
        by_key = one.join(other).where("key").equal_to("key").window(MINUTE)
        return by_key.apply(lambda a, b, ctx: (ctx.key, ctx.window.end))

    def in_group(one, other):
        by_key = one.co_group(other).where("key").equal_to("key").window(MINUTE)
        return by_key.apply(lambda a, b, ctx: [(ctx.key, ctx.window.end, len(a), len(b))])

    assert joined(in_join, events) == [("a", 60_000)]
    assert joined(in_group, events) == [("a", 60_000, 1, 1)]


def test_properties_of_results():
    harness = PipelineTestHarness()
    left, right = (harness.source(side) for side in SIDES)
    by_key = left.join(right).where("key").equal_to("key")
    assert by_key.apply(pair)._record_type() == Types.of(Pair)
    names = by_key.apply(pair, how="full")._record_type().get_field_names()
    assert names == ["left", "right"]
    within = by_key.apply(pair, how="full", deadline=Time.seconds(1))
    assert within._record_type() == Types.of(Pair)
    declared = by_key.apply(pair, Types.of(Item))
    assert declared.get_type() == Types.of(Item)


@pytest.mark.parametrize(
    ("build", "error", "why"),
    [
        (lambda k: k.apply(pair, how="outer"), WrongArgumentError, "how must be 'inner' or 'left'"),
        (lambda k: k.apply(pair, deadline=5), WrongArgumentError, "a Duration or Time, got 5"),
        (
            lambda k: k.apply(pair, deadline=Time.seconds(1), ttl=Time.seconds(1)),
            InvalidProgramError,
            "leave out ttl",
        ),
        (
            lambda k: k.apply(pair, Types.of(Pair), how="full"),
            InvalidProgramError,
            "leave out output_type, or give a deadline",
        ),
        (
            lambda k: k.apply(pair, ttl=(Time.days(1),)),
            WrongArgumentError,
            r"one lifetime or a pair, got \(Time\(86400000 ms\),\)",
        ),
        (lambda k: k.apply(3), InvalidProgramError, "join apply takes a JoinFunction"),
        (
            lambda k: k.window(MINUTE).apply(pair, ttl=Time.days(1)),
            InvalidProgramError,
            "when their window ends: leave out ttl, or join without a window",
        ),
    ],
)
def test_wrong_arguments_fail_in_the_call(build, error, why):
    harness = PipelineTestHarness()
    left, right = (harness.source(side) for side in SIDES)
    with pytest.raises(error, match=why):
        build(left.join(right).where("key").equal_to("key"))


def test_both_keys_are_named():
    harness = PipelineTestHarness()
    left, right = (harness.source(side) for side in SIDES)
    with pytest.raises(InvalidProgramError, match="name both keys"):
        left.join(right).where("key").apply(pair)


@pytest.mark.parametrize("join", ["join", "join_latest", "co_group", "union"])
def test_only_streams_are_joined(join):
    left = PipelineTestHarness().source("left")
    with pytest.raises(WrongArgumentError, match=rf"{join} takes a DataStream, got \[1\]"):
        getattr(left, join)([1])


@pytest.mark.parametrize(
    ("where", "equal_to"), [(["key"], ["number"]), (["key", "number"], ["key", "key"])]
)
def test_keys_that_are_never_equal_are_refused(where, equal_to):
    harness = PipelineTestHarness()
    left, right = (harness.source(side, Types.of(Item)) for side in SIDES)
    with pytest.raises(InvalidProgramError, match="which are never equal"):
        left.join(right).where(*where).equal_to(*equal_to)
    left.join(right).where("number").equal_to(field("number") * 0.5)
