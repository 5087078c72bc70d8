"""`top_n` and `deduplicate` emit what a sorted list would contain, as changes and in the end.

Method: random records go through a program with virtual time, which is stopped and restored in the
middle; the changes are applied to a collection, which is compared with a model.
"""

import itertools
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest
from penstock.common import Duration, Time, Types
from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.datastream import OutputTag
from penstock.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions import field
from penstock.testing import PipelineTestHarness

END = 2**63 - 1


class Bid(NamedTuple):
    item: str
    price: int | None
    number: int


BID = Types.of(Bid)


def bids(seed, count=60):
    random_numbers = random.Random(seed)
    return [
        Bid(random_numbers.choice("abc"), random_numbers.choice([None, *range(9)]), number)
        for number in range(count)
    ]


def run(build, values, type_info=BID, restarts=()):
    """Return the results of a program that is restored from a snapshot amid the values."""
    found, restored = [], None
    starts = [0, *restarts, len(values)]
    for start, end in itertools.pairwise(starts):
        harness = PipelineTestHarness()
        harness.sink("out", build(harness.source("in", type_info)))
        harness.open(restored)
        for at, value in enumerate(values[start:end], start):
            harness.process_element("in", value, at)
        if end == len(values):
            harness.process_watermark("in", END)
        else:
            restored = harness.snapshot(1)
        found += harness.values("out")
        harness.close()
    return found


def applied(changes):
    """Return the rows that remain after changes, by value; fail on an inconsistent change."""
    rows = Counter()
    for row in changes:
        kind, values = row.get_row_kind(), tuple(row)
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            rows[values] += 1
        else:
            assert rows[values] > 0, (row, rows)
            rows[values] -= 1
    return sorted(rows.elements(), key=repr)


def place(bid):
    return (bid.price is not None, bid.price or 0)


def model(values, n, descending):
    groups = defaultdict(list)
    for bid in values:
        groups[bid.item].append(bid)
    return {
        # Python's sort is stable, also in reverse.
        item: sorted(group, key=place, reverse=descending)[:n]
        for item, group in groups.items()
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "descending"), [(1, True), (3, True), (3, False)])
def test_changes_lead_to_the_first_records(seed, n, descending):
    values = bids(seed)
    build = lambda s: s.key_by("item").top_n(n, "price", descending)  # noqa: E731
    changes = run(build, values, restarts=[20, 41])
    best = model(values, n, descending)
    assert applied(changes) == sorted((tuple(b) for g in best.values() for b in g), key=repr)
    assert {change.get_row_kind() for change in changes} == {RowKind.INSERT, RowKind.DELETE}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "descending"), [(1, True), (3, False)])
def test_changes_lead_to_ranks(seed, n, descending):
    values = bids(seed)
    build = lambda s: s.key_by("item").top_n(n, "price", descending, rank="rank")  # noqa: E731
    changes = run(build, values, restarts=[20, 41])
    expected = [
        (*bid, rank)
        for group in model(values, n, descending).values()
        for rank, bid in enumerate(group, 1)
    ]
    assert applied(changes) == sorted(expected, key=repr)
    assert changes[0]._field_names() == ["item", "price", "number", "rank"]


@pytest.mark.parametrize("descending", [True, False])
def test_final_results_are_the_records_in_order(descending):
    values = bids(7)
    build = lambda s: s.key_by("item").top_n(2, "price", descending, results="final")  # noqa: E731
    found = run(build, values, restarts=[20, 41])
    assert all(type(bid) is Bid for bid in found)
    groups = defaultdict(list)
    for bid in found:
        groups[bid.item].append(bid)
    assert dict(groups) == model(values, 2, descending)


@pytest.mark.parametrize(
    "by", ["price", field("price"), lambda bid: bid.price, ["price", field("number")]]
)
def test_an_order_is_a_field_an_expression_or_a_function(by):
    values = [Bid("a", 1, 0), Bid("a", 3, 1), Bid("a", 2, 2)]
    found = run(lambda s: s.key_by("item").top_n(2, by, results="final"), values)
    assert found == [values[1], values[2]]


def test_windows_emit_their_first_records():
    values = bids(3, 40)

    def build(stream):
        windows = stream.key_by("item").window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
        return windows.top_n(2, "price")

    expected = []
    for start in (0, 20):
        best = model(values[start : start + 20], 2, True)
        expected += [bid for item in best for bid in best[item]]
    assert sorted(run(build, values, restarts=[10]), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("restarts", [[], [1], [2]])
def test_windows_emit_their_first_records_again_for_a_late_one(restarts):
    """Within the allowed lateness; after that, late records go to the side output."""
    late = OutputTag("late", BID)
    found, restored = {"top": [], "last": [], "late": []}, None
    steps = [[(5, 1), (7, 2)], [(12, 3)], [(9, 4)], [(6, 5)]]
    passed = [3, 10, 17, 18]
    for start, end in itertools.pairwise([0, *restarts, len(steps)]):
        harness = PipelineTestHarness()
        windows = harness.source("in", BID).key_by("item")
        windows = windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        windows = windows.allowed_lateness(8).side_output_late_data(late)
        top = windows.top_n(2, "price")
        harness.sink("top", top)
        harness.sink("last", windows.deduplicate("last"))
        harness.sink("late", top.get_side_output(late))
        harness.open(restored)
        for events, watermark in zip(steps[start:end], passed[start:end], strict=True):
            for price, at in events:
                harness.process_element("in", Bid("a", price, at), at)
            harness.process_watermark("in", watermark)
        restored = harness.snapshot(1) if end < len(steps) else None
        for name, prices in found.items():
            prices += [bid.price for bid in harness.values(name)]
        harness.close()
    assert found == {"top": [12, 7, 12, 9], "last": [12, 9], "late": [6]}


def test_windows_over_all_records_emit_their_first_records():
    values = bids(3, 20)
    minute = TumblingEventTimeWindows.of(Time.minutes(1))
    found = run(lambda s: s.window_all(minute).top_n(3, "price"), values)
    assert found == sorted(values, key=place, reverse=True)[:3]


def test_sessions_that_merge_keep_the_first_records_of_both():
    harness = PipelineTestHarness()
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    harness.sink("out", harness.source("in", BID).key_by("item").window(sessions).top_n(2, "price"))
    with harness:
        for at, price in ((0, 5), (15, 7), (8, 6)):
            harness.process_element("in", Bid("a", price, at), at)
        harness.process_watermark("in", END)
        assert [bid.price for bid in harness.values("out")] == [7, 6]


def test_the_first_record_of_a_key_stays():
    values = bids(5)
    found = run(lambda s: s.key_by("item").deduplicate(), values, restarts=[1, 30])
    first = {bid.item: bid for bid in reversed(values)}
    assert sorted(found) == sorted(first.values())


def test_the_last_record_of_a_key_replaces_the_one_before():
    values = bids(5)
    changes = run(lambda s: s.key_by("item").deduplicate("last"), values, restarts=[1, 30])
    last = {bid.item: bid for bid in values}
    assert applied(changes) == sorted(map(tuple, last.values()), key=repr)
    kinds = Counter(change.get_row_kind() for change in changes)
    assert kinds[RowKind.INSERT] == len(last)
    assert kinds[RowKind.UPDATE_BEFORE] == kinds[RowKind.UPDATE_AFTER] == 60 - len(last)
    build = lambda s: s.key_by("item").deduplicate("last", results="final")  # noqa: E731
    final = run(build, values, restarts=[1, 30])
    assert sorted(final, key=repr) == sorted(last.values(), key=repr)


@pytest.mark.parametrize(("keep", "expected"), [("first", [0, 20]), ("last", [19, 39])])
def test_windows_emit_one_record(keep, expected):
    values = [Bid("a", 1, number) for number in range(40)]
    window = TumblingEventTimeWindows.of(Time.milliseconds(20))
    build = lambda s: s.key_by("item").window(window).deduplicate(keep)  # noqa: E731
    found = run(build, values, restarts=[7, 27])
    assert [bid.number for bid in found] == expected


@pytest.mark.parametrize("ttl", [Time.seconds(10), Duration.of_seconds(10)])
def test_state_expires(ttl):
    harness = PipelineTestHarness()
    keyed = harness.source("in", BID).key_by("item")
    harness.sink("first", keyed.deduplicate(ttl=ttl))
    harness.sink("top", keyed.top_n(1, "price", ttl=ttl))
    with harness:
        for now, price in ((0, 5), (5_000, 4), (20_000, 3)):
            harness.set_processing_time(now)
            harness.process_element("in", Bid("a", price, now))
        assert [bid.price for bid in harness.values("first")] == [5, 3]
        assert [row["price"] for row in harness.values("top")] == [5, 3]


def test_properties_of_records_hold_for_results():
    keyed = PipelineTestHarness().source("in", BID).key_by("item")
    plain = ["item", "price", "number"]
    assert keyed.top_n(1, "price", results="final").get_type() == BID
    assert keyed.top_n(1, "price").get_type().get_field_names() == plain
    ranks = keyed.top_n(1, "price", rank="place").get_type()
    assert ranks.get_field_names() == [*plain, "place"]
    assert keyed.deduplicate().get_type() == BID
    assert keyed.deduplicate("last").get_type().get_field_names() == plain


@pytest.mark.parametrize(
    ("build", "error", "why"),
    [
        (lambda k: k.top_n(0, "price"), WrongArgumentError, "n must be a positive integer, got 0"),
        (lambda k: k.top_n(1, "prise"), InvalidProgramError, "did you mean 'price'"),
        (lambda k: k.top_n(1, []), InvalidProgramError, "by must be a field"),
        (lambda k: k.top_n(1, "price", results="all"), WrongArgumentError, "'changes' or 'final'"),
        (lambda k: k.top_n(1, "price", rank="item"), InvalidProgramError, "choose another name"),
        (
            lambda k: k.top_n(1, "price", results="final", rank="r"),
            InvalidProgramError,
            "leave rank out",
        ),
        (
            lambda k: k.top_n(1, ["price"], descending=[True]),
            WrongArgumentError,
            r"a single True or False, got \[True\]",
        ),
        (lambda k: k.deduplicate("any"), WrongArgumentError, "keep must be 'first' or 'last'"),
        (lambda k: k.deduplicate(ttl=5), WrongArgumentError, "a Duration or a Time, got 5"),
    ],
)
def test_wrong_arguments_fail_in_the_call(build, error, why):
    with pytest.raises(error, match=why):
        build(PipelineTestHarness().source("in", BID).key_by("item"))


def test_changes_are_not_ranked():
    row = Row.of_kind(RowKind.DELETE, "a", 1, 2)
    with pytest.raises(InvalidProgramError, match=r"top_n takes only insertions, and .* is -D"):
        run(lambda s: s.key_by(lambda r: r[0]).top_n(1, lambda r: r[1]), [row], None)
