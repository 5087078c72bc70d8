"""The queries as expressions and built-in functions: what penstock computes without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock.aggregates as agg
from nexmark import plain
from penstock.common import Time, Types
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.expressions import as_tuple, coalesce, field, when

if TYPE_CHECKING:
    from nexmark.tables import Tables
    from penstock.datastream.data_stream import DataStream

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()
DAY_MS = 86_400_000


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


def q5(tables: Tables) -> DataStream[Any]:
    count = Types.TUPLE([LONG, LONG, LONG])
    counts = (
        tables.timed("bid")
        .key_by(field("auction"), LONG)
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate({"bids": agg.count()})
    )
    return (
        counts.map(as_tuple(field("auction"), field("bids"), field("window_end")), count)
        .key_by(field(2), LONG)
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .process(plain.Most(), count)
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
