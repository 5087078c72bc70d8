"""The queries as expressions and built-in functions: what penstock computes without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexmark import plain
from penstock.common import Time, Types
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.expressions import argument, as_tuple, coalesce, field, greatest, least, lit, when

if TYPE_CHECKING:
    from nexmark.tables import Tables
    from penstock.datastream.data_stream import DataStream
    from penstock.expressions import Expression

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()


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
        .key_by(field("auction"))
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate(plain.Count(), plain.WithEnd(), LONG, count)
    )
    return (
        counts.key_by(field(2))
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


def _is(condition: Expression) -> Expression:
    """1 where a condition holds, else 0."""
    return when(condition).then(1).otherwise(0)


def q17(tables: Tables) -> DataStream[Any]:
    price, day = field("price"), field("dateTime") // 86_400_000
    numbers = Types.TUPLE([LONG] * 9)
    bids = tables.rows("bid").map(
        as_tuple(
            field("auction"),
            day,
            lit(1),
            _is(price < 10_000),
            _is((price >= 10_000) & (price < 1_000_000)),
            _is(price >= 1_000_000),
            price,
            price,
            price,
        ),
        numbers,
    )
    one, other = argument(0), argument(1)
    totals = bids.key_by(as_tuple(field(0), field(1)), Types.TUPLE([LONG, LONG])).reduce(
        as_tuple(
            one[0],
            one[1],
            *(one[i] + other[i] for i in range(2, 6)),
            least(one[6], other[6]),
            greatest(one[7], other[7]),
            one[8] + other[8],
        )
    )
    return totals.map(
        lambda t: (t[0], plain.day_of(t[1] * 86_400_000), *t[2:8], t[8] / t[2], t[8]),
        plain.AUCTION_DAY,
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
