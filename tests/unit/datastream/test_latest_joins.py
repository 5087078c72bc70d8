"""`join_latest` finds the last record of a key: by arrival, as of a timestamp, or in a table.

Method: programs with virtual time, one of them stopped and restored; a temporal join of random
records is compared with a model.
"""

import itertools
import random
from typing import NamedTuple

import pytest
from penstock.common import Time
from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.testing import PipelineTestHarness

SIDES = ("orders", "rates")
END = 2**63 - 1


class Order(NamedTuple):
    currency: str
    number: int


class Rate(NamedTuple):
    currency: str
    rate: int


def priced(order, rate) -> Order:
    return Order(order.currency, order.number * 100 + (rate.rate if rate else 0))


def run(events, restarts=(), function=priced, *, broadcast=False, **options):
    found, restored = [], None
    starts = [0, *restarts, len(events)]
    for start, stop in itertools.pairwise(starts):
        harness = PipelineTestHarness()
        orders, rates = map(harness.source, SIDES)
        joined = orders.join_latest(rates, broadcast=broadcast).where("currency")
        harness.sink("out", joined.equal_to("currency").apply(function, **options))
        harness.open(restored)
        for side, record, timestamp in events[start:stop]:
            if side is None:
                for source in SIDES:
                    harness.process_watermark(source, record)
            else:
                harness.process_element(side, record, timestamp)
        if stop != len(events):
            restored = harness.snapshot(1)
        found += harness.values("out")
        harness.close()
    return [order.number for order in found]


def gone(record):
    return Row.of_kind(RowKind.DELETE, **record._asdict())


BY_ARRIVAL = [
    ("orders", Order("EUR", 1), None),
    ("rates", Rate("EUR", 5), None),
    ("orders", Order("EUR", 2), None),
    ("rates", Rate("EUR", 6), None),
    ("rates", Rate("USD", 7), None),
    ("orders", Order("EUR", 3), None),
    ("orders", Order("USD", 4), None),
    ("rates", gone(Rate("EUR", 6)), None),
    ("orders", Order("EUR", 5), None),
]


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("restarts", [[], [3, 6]])
def test_the_last_record_that_arrived(broadcast, restarts):
    assert run(BY_ARRIVAL, restarts, broadcast=broadcast) == [205, 306, 407]
    left = run(BY_ARRIVAL, restarts, broadcast=broadcast, how="left")
    assert left == [100, 205, 306, 407, 500]


def test_the_last_record_expires():
    harness = PipelineTestHarness()
    orders, rates = map(harness.source, SIDES)
    by_key = orders.join_latest(rates).where("currency").equal_to("currency")
    harness.sink("out", by_key.apply(priced, how="left", ttl=Time.seconds(10)))
    with harness:
        harness.process_element("rates", Rate("EUR", 5))
        harness.process_element("orders", Order("EUR", 1))
        harness.set_processing_time(20_000)
        harness.process_element("orders", Order("EUR", 2))
        assert [order.number for order in harness.values("out")] == [105, 200]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_last_record_as_of_a_timestamp(seed, how):
    numbers = random.Random(seed)
    events, versions, expected = [], {}, []
    for at in range(0, 800, 10):
        time = max(0, at - numbers.randrange(40))
        currency = numbers.choice(["EUR", "USD"])
        if numbers.random() < 0.5:
            events.append(("orders", Order(currency, len(events) + 1), time))
        else:
            # One version per timestamp: of two the one that arrives later would win.
            while (currency, time) in versions:
                time += 1
            rate = Rate(currency, numbers.randrange(1, 99))
            versions[currency, time] = rate if numbers.random() < 0.8 else None
            events.append(("rates", rate if versions[currency, time] else gone(rate), time))
        if at % 50 == 0:
            events.append((None, at - 40, None))
    for side, order, time in events:
        if side == "orders":
            times = [then for of, then in versions if of == order.currency and then <= time]
            rate = versions[order.currency, max(times)] if times else None
            if rate or how == "left":
                expected.append(priced(order, rate).number)
    events.append((None, END, None))
    found = run(events, [30, 60], how=how, event_time=True)
    assert sorted(found) == sorted(expected)


def test_results_of_a_temporal_join_have_the_timestamp_of_the_record():
    harness = PipelineTestHarness()
    orders, rates = map(harness.source, SIDES)
    by_key = orders.join_latest(rates).where("currency").equal_to("currency")
    harness.sink("out", by_key.apply(priced, event_time=True))
    with harness:
        harness.process_element("orders", Order("EUR", 1), 20)
        harness.process_element("rates", Rate("EUR", 5), 10)
        assert harness.values("out") == []
        for source in SIDES:
            harness.process_watermark(source, 30)
        assert [(r.value.number, r.timestamp) for r in harness.output("out").records] == [(105, 20)]


def test_passed_versions_are_forgotten():
    harness = PipelineTestHarness()
    orders, rates = map(harness.source, SIDES)
    by_key = orders.join_latest(rates).where("currency").equal_to("currency")
    harness.sink("out", by_key.apply(priced, event_time=True))
    with harness:
        sizes = []
        for at in range(1, 50):
            harness.process_element("rates", Rate("EUR", at), at)
            for source in SIDES:
                harness.process_watermark(source, at)
            sizes.append(sum(len(str(part)) for part in harness.snapshot(at).values()))
        assert max(sizes[10:]) <= sizes[10] + 8
        harness.process_element("orders", Order("EUR", 1), 49)
        assert harness.values("out") == [Order("EUR", 149)]


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"how": "full"}, WrongArgumentError, "how must be 'inner' or 'left', got 'full'"),
        ({"broadcast": True, "event_time": True}, InvalidProgramError, "leave out event_time"),
        ({"broadcast": True, "ttl": Time.seconds(1)}, InvalidProgramError, "leave it out"),
        ({"event_time": True, "ttl": Time.seconds(1)}, InvalidProgramError, "leave it out"),
    ],
)
def test_wrong_arguments_fail_in_the_call(options, error, why):
    with pytest.raises(error, match=why):
        run([], **options)


def test_a_record_without_a_timestamp_has_no_version():
    with pytest.raises(InvalidProgramError, match="has no timestamp; call assign_timestamps"):
        run([("orders", Order("EUR", 1), None)], event_time=True)
