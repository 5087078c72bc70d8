"""The queries without joins as plain Python functions over rows: a user's first version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexmark.texts import channel_id, day_of, minute_of, side_input, time_of_day
from penstock.common import Time, Types
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nexmark.tables import Tables
    from penstock.datastream import RuntimeContext
    from penstock.datastream.data_stream import DataStream

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()
BID = Types.TUPLE([LONG, LONG, LONG, STRING, STRING, LONG, STRING])
SHORT_BID = Types.TUPLE([LONG, LONG, LONG, LONG, STRING])


# ---- one record at a time ------------------------------------------------------------------------


def q0(tables: Tables) -> DataStream[Any]:
    return tables.rows("bid").map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra), SHORT_BID
    )


def q1(tables: Tables) -> DataStream[Any]:
    return tables.rows("bid").map(
        lambda bid: (bid.auction, bid.bidder, bid.price * 0.908, bid.dateTime, bid.extra),
        Types.TUPLE([LONG, LONG, DOUBLE, LONG, STRING]),
    )


def q2(tables: Tables) -> DataStream[Any]:
    bids = tables.rows("bid").filter(lambda bid: bid.auction % 123 == 0)
    return bids.map(lambda bid: (bid.auction, bid.price), Types.TUPLE([LONG, LONG]))


def q10(tables: Tables) -> DataStream[Any]:
    def with_partition(bid: Any) -> tuple[Any, ...]:
        auction, bidder, price, time, extra = bid
        return auction, bidder, price, time, extra, day_of(time), minute_of(time)

    return tables.rows("bid").map(
        with_partition, Types.TUPLE([LONG, LONG, LONG, LONG, STRING, STRING, STRING])
    )


class SideJoin(MapFunction):
    """Adds an auction's value from the side input."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.side = side_input()

    def map(self, value: Any) -> tuple[Any, ...]:
        return (
            value.auction,
            value.bidder,
            value.price,
            value.dateTime,
            self.side[value.auction % 10_000],
        )


def q13(tables: Tables) -> DataStream[Any]:
    return tables.rows("bid").map(SideJoin(), Types.TUPLE([LONG, LONG, LONG, LONG, STRING]))


def q14(tables: Tables) -> DataStream[Any]:
    def calculated(bid: Any) -> tuple[Any, ...]:
        auction, bidder, price, time, extra = bid
        return auction, bidder, price * 0.908, time_of_day(time), time, extra, extra.count("c")

    bids = tables.rows("bid").filter(lambda bid: 1_000_000 < bid.price * 0.908 < 50_000_000)
    return bids.map(calculated, Types.TUPLE([LONG, LONG, DOUBLE, STRING, LONG, STRING, LONG]))


def q21(tables: Tables) -> DataStream[Any]:
    def with_id(bid: Any) -> Iterator[tuple[Any, ...]]:
        auction, bidder, price, channel, url = bid
        found = channel_id(channel, url)
        if found is not None:
            yield auction, bidder, price, channel, found

    return tables.rows("bid").flat_map(with_id, Types.TUPLE([LONG, LONG, LONG, STRING, STRING]))


def q22(tables: Tables) -> DataStream[Any]:
    def with_folders(bid: Any) -> tuple[Any, ...]:
        auction, bidder, price, channel, url = bid
        parts = url.split("/")
        return auction, bidder, price, channel, parts[3], parts[4], parts[5]

    return tables.rows("bid").map(
        with_folders, Types.TUPLE([LONG, LONG, LONG, STRING, STRING, STRING, STRING])
    )


# ---- windows -------------------------------------------------------------------------------------


class Count(AggregateFunction):
    """Counts elements."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithEnd(ProcessWindowFunction):
    """Adds the key and the end of the window."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        for count in elements:
            yield key, count, context.window().end


class WithBounds(ProcessWindowFunction):
    """Adds the key and the bounds of the window."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        window = context.window()
        for count in elements:
            yield key, count, window.start, window.end


class Most(ProcessWindowFunction):
    """Emits the auctions with the most bids."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        counts = list(elements)
        most = max(count[1] for count in counts)
        for count in counts:
            if count[1] == most:
                yield count


def q5(tables: Tables) -> DataStream[Any]:
    count = Types.TUPLE([LONG, LONG, LONG])
    counts = (
        tables.timed("bid")
        .key_by(lambda bid: bid.auction, LONG)
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate(Count(), WithEnd(), LONG, count)
    )
    return (
        counts.key_by(lambda count: count[2], LONG)
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .process(Most(), count)
    )


class Highest(AggregateFunction):
    """Emits the bids of the highest price."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        if not accumulator or value[2] > accumulator[0][2]:
            return [value]
        if value[2] == accumulator[0][2]:
            accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        for value in acc_b:
            acc_a = self.add(value, acc_a)
        return acc_a


def highest_bids(bids: DataStream[Any], window: Any) -> DataStream[Any]:
    """Return the bids of the highest price of every ten seconds.

    Args:
        bids: Tuples of `SHORT_BID` with timestamps.
        window: Selects the number of a bid's window.
    """
    highest = (
        bids.key_by(window, LONG)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(
            Highest(), accumulator_type=Types.LIST(SHORT_BID), output_type=Types.LIST(SHORT_BID)
        )
    )

    def each(found: list[Any]) -> Iterator[tuple[Any, ...]]:
        for auction, bidder, price, time, extra in found:
            yield auction, price, bidder, time, extra

    return highest.flat_map(each, SHORT_BID)


def q7(tables: Tables) -> DataStream[Any]:
    bids = tables.timed("bid").map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra), SHORT_BID
    )
    return highest_bids(bids, lambda bid: bid[3] // 10_000)


def q11(tables: Tables) -> DataStream[Any]:
    return (
        tables.timed("bid")
        .key_by(lambda bid: bid.bidder, LONG)
        .window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
        .aggregate(Count(), WithBounds(), LONG, Types.TUPLE([LONG, LONG, LONG, LONG]))
    )


# ---- running results -----------------------------------------------------------------------------


def rank_of(price: int) -> int:
    """Return the number of the range that contains a price, from 1."""
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3


class Statistics:
    """Counts of bids, bidders and auctions: of all and of three ranges of prices."""

    def __init__(self) -> None:
        self.minute = ""
        self.bids = [0] * 4
        self.bidders: list[set[int]] = [set() for _ in range(4)]
        self.auctions: list[set[int]] = [set() for _ in range(4)]

    def add(self, auction: int, bidder: int, price: int) -> None:
        rank = rank_of(price)
        for place in (0, rank):
            self.bids[place] += 1
            self.bidders[place].add(bidder)
            self.auctions[place].add(auction)

    def counts(self) -> tuple[int, ...]:
        return (*self.bids, *map(len, self.bidders), *map(len, self.auctions))


class DayStatistics(KeyedProcessFunction):
    """Emits the statistics of a day whenever they change."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.statistics = runtime_context.get_state(
            ValueStateDescriptor("statistics", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        found = self.statistics.value()
        if found is None:
            found = Statistics()
            self.statistics.update(found)
        found.add(value.auction, value.bidder, value.price)
        yield ctx.get_current_key(), *found.counts()


def q15(tables: Tables) -> DataStream[Any]:
    return (
        tables.rows("bid")
        .key_by(lambda bid: day_of(bid.dateTime), STRING)
        .process(DayStatistics(), Types.TUPLE([STRING, *[LONG] * 12]))
    )


class ChannelStatistics(DayStatistics):
    """Emits the statistics of a channel and day whenever they change."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        found = self.statistics.value()
        if found is None:
            found = Statistics()
            self.statistics.update(found)
        found.add(value.auction, value.bidder, value.price)
        found.minute = max(found.minute, minute_of(value.dateTime))
        yield *ctx.get_current_key(), found.minute, *found.counts()


def q16(tables: Tables) -> DataStream[Any]:
    return (
        tables.rows("bid")
        .key_by(lambda bid: (bid.channel, day_of(bid.dateTime)), Types.TUPLE([STRING, STRING]))
        .process(ChannelStatistics(), Types.TUPLE([STRING, STRING, STRING, *[LONG] * 12]))
    )


AUCTION_DAY = Types.TUPLE([LONG, STRING, *[LONG] * 4, LONG, LONG, DOUBLE, LONG])


def q17(tables: Tables) -> DataStream[Any]:
    def one(bid: Any) -> tuple[Any, ...]:
        auction, price, time = bid
        ranks = (price < 10_000, 10_000 <= price < 1_000_000, price >= 1_000_000)
        return auction, day_of(time), 1, *map(int, ranks), price, price, float(price), price

    def merged(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        total, count = a[9] + b[9], a[2] + b[2]
        return (
            a[0],
            a[1],
            count,
            a[3] + b[3],
            a[4] + b[4],
            a[5] + b[5],
            a[6] if a[6] < b[6] else b[6],
            a[7] if a[7] > b[7] else b[7],
            total / count,
            total,
        )

    bids = tables.rows("bid").map(one, AUCTION_DAY)
    return bids.key_by(lambda bid: (bid[0], bid[1]), Types.TUPLE([LONG, STRING])).reduce(merged)


def q18(tables: Tables) -> DataStream[Any]:
    def later(a: Any, b: Any) -> Any:
        if (b.dateTime, b.price, b.extra) >= (a.dateTime, a.price, a.extra):
            return b
        return a

    return (
        tables.rows("bid")
        .key_by(lambda bid: (bid.bidder, bid.auction), Types.TUPLE([LONG, LONG]))
        .reduce(later)
    )


class TenHighest(KeyedProcessFunction):
    """Emits a bid if it is one of the ten highest of its auction so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.best = runtime_context.get_state(
            ValueStateDescriptor("best", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        best = self.best.value()
        if best is None:
            best = []
            self.best.update(best)
        ranked = (-value.price, value.dateTime, value.bidder, value.extra)
        if len(best) < 10 or ranked < best[-1][0]:
            best.append((ranked, value))
            best.sort(key=lambda pair: pair[0])
            del best[10:]
            yield value


def q19(tables: Tables) -> DataStream[Any]:
    bids = tables.rows("bid")
    return bids.key_by(lambda bid: bid.auction, LONG).process(TenHighest(), bids.get_type())
