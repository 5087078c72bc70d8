"""The queries as expressions and built-in functions, which penstock computes without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import penstock.aggregates as agg
import pyarrow as pa
import pyarrow.compute as pc
from nexmark import plain
from nexmark.results import QUERIES
from nexmark.texts import side_input
from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.expressions import argument, as_tuple, coalesce, field, when

if TYPE_CHECKING:
    from collections.abc import Callable

    from nexmark.tables import Tables
    from penstock.datastream.data_stream import DataStream
    from penstock.expressions import Expression

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()
DAY_MS = 86_400_000
#: The records of both sides of a join.
ONE, OTHER = argument(0), argument(1)
SIDE_INPUT = pa.array(side_input().values())


def q0(tables: Tables) -> DataStream[Any]:
    names = ("auction", "bidder", "price", "dateTime", "extra")
    return tables.rows("bid").map(as_tuple(*map(field, names)), plain.SHORT_BID)


def q1(tables: Tables) -> DataStream[Any]:
    return tables.rows("bid").map(
        as_tuple(
            field("auction"),
            field("bidder"),
            field("price") * 0.908,
            field("dateTime"),
            field("extra"),
        )
    )


def q2(tables: Tables) -> DataStream[Any]:
    bids = tables.rows("bid").filter(field("auction") % 123 == 0)
    return bids.map(as_tuple(field("auction"), field("price")), Types.TUPLE([LONG, LONG]))


def with_side_input(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return bids with an auction's value from the side input."""
    values = SIDE_INPUT.take(pa.array(batch["auction"].to_numpy() % len(SIDE_INPUT)))
    return batch.append_column("value", values)


def q13(tables: Tables) -> DataStream[Any]:
    names = ("auction", "bidder", "price", "dateTime")
    return tables.rows("bid").map_batches(
        with_side_input, Types.ROW_NAMED([*names, "value"], [LONG, LONG, LONG, LONG, STRING])
    )


def q14(tables: Tables) -> DataStream[Any]:
    hour = field("dateTime").dt.hour()
    dollars = field("price") * 0.908
    bids = tables.rows("bid").filter((dollars > 1_000_000) & (dollars < 50_000_000))
    return bids.map(
        as_tuple(
            field("auction"),
            field("bidder"),
            dollars,
            when(hour.between(8, 18))
            .then("dayTime")
            .when((hour <= 6) | (hour >= 20))
            .then("nightTime")
            .otherwise("otherTime"),
            field("dateTime"),
            field("extra"),
            field("extra").str.length() - field("extra").str.replace("c", "").str.length(),
        ),
        Types.TUPLE([LONG, LONG, DOUBLE, STRING, LONG, STRING, LONG]),
    )


def largest_of(name: str, group: Callable[[Any], Any]) -> Callable[[pa.RecordBatch], Any]:
    """Return a function of batches that keeps the rows with the largest number of their group.

    The largest rows overall are among those of the batches, so a later window compares fewer rows.

    Args:
        name: The column of the number.
        group: Computes the group column of a batch.
    """

    def largest(batch: pa.RecordBatch) -> pa.RecordBatch:
        groups = group(batch).dictionary_encode()
        numbers, codes = batch[name].to_numpy(), groups.indices.to_numpy()
        most = np.full(len(groups.dictionary), np.iinfo(np.int64).min)
        np.maximum.at(most, codes, numbers)
        return batch.filter(pa.array(numbers == most[codes]))

    return largest


def timed_by(stream: DataStream[Any], time: Expression) -> DataStream[Any]:
    """Return a stream with timestamps, whose records are in order."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time)
    return stream.assign_timestamps_and_watermarks(strategy)


def q5(tables: Tables) -> DataStream[Any]:
    count = Types.TUPLE([LONG, LONG, LONG])
    counts = (
        tables.timed("bid")
        .key_by(field("auction"), LONG)
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate({"bids": agg.count()})
    )
    found = counts.map_batches(
        largest_of("bids", lambda batch: batch["window_end"]), counts.get_type()
    )
    return (
        # A batch whose function drops rows has one timestamp.
        timed_by(found, field("window_end") - 1)
        .map(as_tuple(field("auction"), field("bids"), field("window_end")), count)
        .key_by(field(2), LONG)
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .process(plain.Most(), count)
    )


def q7(tables: Tables) -> DataStream[Any]:
    bids = tables.rows("bid")
    found = bids.map_batches(
        largest_of("price", lambda batch: pc.divide(batch["dateTime"], 10_000)), bids.get_type()
    )
    names = ("auction", "bidder", "price", "dateTime", "extra")
    return plain.highest_bids(
        timed_by(found, field("dateTime")).map(as_tuple(*map(field, names)), plain.SHORT_BID),
        field(3) // 10_000,
    )


def q8(tables: Tables) -> DataStream[Any]:
    # The id, the name, and the number of auctions: a person's row has none.
    either = Types.TUPLE([LONG, STRING, LONG])
    persons = tables.timed("person").map(as_tuple(field("id"), field("name"), 0), either)
    auctions = tables.timed("auction").map(as_tuple(field("seller"), "", 1), either)
    registered = field(2) == 0
    both = (
        persons.union(auctions)
        .key_by(field(0), LONG)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(
            {
                "name": agg.first(1, where=registered),
                "persons": agg.count(where=registered),
                "auctions": agg.sum(2),
            },
            key_names=["id"],
        )
        .filter((field("persons") > 0) & (field("auctions") > 0))
    )
    return both.map(
        as_tuple(field("id"), field("name"), field("window_start")),
        Types.TUPLE([LONG, STRING, LONG]),
    )


def q11(tables: Tables) -> DataStream[Any]:
    return (
        tables.timed("bid")
        .key_by(field("bidder"))
        .window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
        .aggregate(plain.Count(), plain.WithBounds(), LONG, Types.TUPLE([LONG] * 4))
    )


def _ranks(prefix: str, aggregate: Any, *arguments: str) -> dict[str, Any]:
    """Return an aggregate of all bids and of three ranges of prices."""
    price = field("price")
    ranges = (
        None,
        price < 10_000,
        (price >= 10_000) & (price < 1_000_000),
        price >= 1_000_000,
    )
    return {f"{prefix}{n}": aggregate(*arguments, where=where) for n, where in enumerate(ranges)}


DAY = field("dateTime") // DAY_MS
STATISTICS = {
    **_ranks("bids", agg.count),
    **_ranks("bidders", agg.count_distinct, "bidder"),
    **_ranks("auctions", agg.count_distinct, "auction"),
}


def q15(tables: Tables) -> DataStream[Any]:
    days = tables.rows("bid").key_by(DAY, LONG).aggregate(STATISTICS)
    return days.map(
        lambda found: (plain.day_of(found[0] * DAY_MS), *found[1:]),
        Types.TUPLE([STRING, *[LONG] * 12]),
    )


def q16(tables: Tables) -> DataStream[Any]:
    found = (
        tables.rows("bid")
        .key_by(as_tuple(field("channel"), DAY), Types.TUPLE([STRING, LONG]))
        .aggregate({"time": agg.max(field("dateTime") % DAY_MS), **STATISTICS})
    )
    return found.map(
        lambda row: (row[0], plain.day_of(row[1] * DAY_MS), plain.minute_of(row[2]), *row[3:]),
        Types.TUPLE([STRING, STRING, STRING, *[LONG] * 12]),
    )


def q17(tables: Tables) -> DataStream[Any]:
    found = (
        tables.rows("bid")
        .key_by(as_tuple(field("auction"), DAY), Types.TUPLE([LONG, LONG]))
        .aggregate(
            {
                **_ranks("bids", agg.count),
                "least": agg.min("price"),
                "most": agg.max("price"),
                "mean": agg.mean("price"),
                "total": agg.sum("price"),
            }
        )
    )
    return found.map(
        lambda row: (row[0], plain.day_of(row[1] * DAY_MS), *row[2:]), plain.AUCTION_DAY
    )


def q18(tables: Tables) -> DataStream[Any]:
    # Several files are read at a time, so the last bid to arrive is not always the last one.
    order = [field("dateTime"), field("price"), field("extra")]
    return tables.rows("bid").key_by("bidder", "auction").top_n(1, order)


def q19(tables: Tables) -> DataStream[Any]:
    order = [field("price"), -field("dateTime"), -field("bidder")]
    return tables.rows("bid").key_by("auction").top_n(10, order)


def q21(tables: Tables) -> DataStream[Any]:
    channel, url = field("channel").str.lower(), field("url")
    start = url.str.find("channel_id=")
    known = (
        when(channel == "apple")
        .then("0")
        .when(channel == "google")
        .then("1")
        .when(channel == "facebook")
        .then("2")
        .when(channel == "baidu")
        .then("3")
    )
    named = when(start >= 0).then(url.str.slice(start + 11, None))
    bids = tables.rows("bid").map(
        as_tuple(
            field("auction"),
            field("bidder"),
            field("price"),
            field("channel"),
            coalesce(known.otherwise(None), named.otherwise(None)),
        ),
        Types.TUPLE([LONG, LONG, LONG, STRING, STRING]),
    )
    return bids.filter(field(4).is_not_null())


def q22(tables: Tables) -> DataStream[Any]:
    parts = field("url").str.split("/")
    return tables.rows("bid").map(
        as_tuple(
            field("auction"),
            field("bidder"),
            field("price"),
            field("channel"),
            parts[3],
            parts[4],
            parts[5],
        ),
        Types.TUPLE([LONG, LONG, LONG, STRING, STRING, STRING, STRING]),
    )


def q3(tables: Tables) -> DataStream[Any]:
    state = field("state")
    persons = tables.rows("person").filter((state == "OR") | (state == "ID") | (state == "CA"))
    auctions = tables.rows("auction").filter(field("category") == 10)
    seller = [ONE.field(name) for name in ("name", "city", "state")]
    return (
        persons.join(auctions)
        .where("id")
        .equal_to("seller")
        .apply(as_tuple(*seller, OTHER.field("id")))
    )


def q20(tables: Tables) -> DataStream[Any]:
    columns = QUERIES["q20"].columns
    bid = [ONE.field(name) for name in columns["bid"]]
    # The id of the auction is that of the bid.
    auction = [OTHER.field(name) for name in columns["auction"][1:]]
    auctions = tables.rows("auction").filter(field("category") == 10)
    return (
        tables.rows("bid")
        .join(auctions)
        .where("auction")
        .equal_to("id")
        .apply(as_tuple(*bid, *auction))
    )


def q23(tables: Tables) -> DataStream[Any]:
    bid = [ONE.field(name) for name in ("auction", "bidder", "price", "url")]
    with_auction = (
        tables.rows("bid")
        .join(tables.rows("auction"))
        .where("auction")
        .equal_to("id")
        .apply(as_tuple(*bid, OTHER.field("itemName"), OTHER.field("category")))
    )
    return (
        with_auction.join(tables.rows("person"))
        .where(field(1))
        .equal_to("id")
        .apply(as_tuple(*[ONE[at] for at in range(6)], OTHER.field("name"), OTHER.field("city")))
    )


def winning_bids(tables: Tables, query: str) -> DataStream[Any]:
    """Return the fields of each auction with those of its highest bid, at the end of the input."""
    columns = QUERIES[query].columns
    auction, bid = columns["auction"], columns["bid"]
    places = {name: at for at, name in enumerate(auction)}
    bids = {name: len(auction) + at for at, name in enumerate(bid)}
    time = field(bids["dateTime"])
    return (
        tables.rows("auction")
        .join(tables.rows("bid"))
        .where("id")
        .equal_to("auction")
        .apply(as_tuple(*map(ONE.field, auction), *map(OTHER.field, bid)))
        .filter((time >= field(places["dateTime"])) & (time <= field(places["expires"])))
        .key_by(field(places["id"]))
        .top_n(1, [field(bids["price"]), -time], results="final")
    )


def q9(tables: Tables) -> DataStream[Any]:
    return winning_bids(tables, "q9")


def q4(tables: Tables) -> DataStream[Any]:
    columns = QUERIES["q4"].columns["auction"]
    price = len(columns) + QUERIES["q4"].columns["bid"].index("price")
    category = columns.index("category")
    winners = winning_bids(tables, "q4")
    return winners.key_by(field(category)).aggregate({"average": agg.mean(field(price))})
