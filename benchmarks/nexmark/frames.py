"""The queries as lazy frames of Polars, a batch peer on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from nexmark.results import QUERIES

if TYPE_CHECKING:
    from pathlib import Path

col = pl.col


class Frames:
    """The tables of one query."""

    def __init__(self, folder: Path, query: str) -> None:
        """Prepare to read a folder as `events.write` leaves it."""
        self._folder = folder
        self._columns = QUERIES[query].columns

    def table(self, name: str) -> pl.LazyFrame:
        """Return the columns of a table that the query reads."""
        return pl.scan_parquet(f"{self._folder}/{name}/*.parquet").select(self._columns[name])


def time_of(column: str) -> pl.Expr:
    """Return a column of milliseconds since the epoch as times."""
    return pl.from_epoch(col(column), "ms")


DAY = time_of("dateTime").dt.strftime("%Y-%m-%d").alias("day")
MINUTE = time_of("dateTime").dt.strftime("%H:%M").alias("minute")
RANKS = (
    pl.lit(value=True),
    col("price") < 10_000,
    (col("price") >= 10_000) & (col("price") < 1_000_000),
    col("price") >= 1_000_000,
)


def _counts() -> list[pl.Expr]:
    ranks = [rank.sum().alias(f"bids{i}") for i, rank in enumerate(RANKS) if i]
    return [pl.len().alias("bids0"), *ranks]


def _distinct(name: str) -> list[pl.Expr]:
    return [col(name).filter(rank).n_unique().alias(f"{name}s{i}") for i, rank in enumerate(RANKS)]


def _winners(frames: Frames) -> pl.LazyFrame:
    auctions, bids = frames.table("auction"), frames.table("bid")
    order = [name for name in ("dateTime", "bidder", "extra") if name in bids.collect_schema()]
    renamed = bids.rename({name: f"bid_{name}" for name in bids.collect_schema()})
    pairs = auctions.join(renamed, left_on="id", right_on="bid_auction", coalesce=False).filter(
        col("bid_dateTime").is_between(col("dateTime"), col("expires"))
    )
    by = ["bid_price", *(f"bid_{name}" for name in order)]
    return pairs.sort(by, descending=[True, *[False] * len(order)]).unique(
        "id", keep="first", maintain_order=True
    )


def q0(frames: Frames) -> pl.LazyFrame:
    return frames.table("bid")


def q1(frames: Frames) -> pl.LazyFrame:
    return frames.table("bid").with_columns(col("price") * 0.908)


def q2(frames: Frames) -> pl.LazyFrame:
    return frames.table("bid").filter(col("auction") % 123 == 0)


def q3(frames: Frames) -> pl.LazyFrame:
    persons = frames.table("person").filter(col("state").is_in(["OR", "ID", "CA"]))
    auctions = frames.table("auction").filter(col("category") == 10)
    joined = auctions.join(persons, left_on="seller", right_on="id")
    return joined.select("name", "city", "state", "id")


def q4(frames: Frames) -> pl.LazyFrame:
    return _winners(frames).group_by("category").agg(col("bid_price").sum() / pl.len())


def q5(frames: Frames) -> pl.LazyFrame:
    pane = (col("dateTime") // 2000).alias("pane")
    panes = frames.table("bid").group_by("auction", pane).agg(pl.len().alias("num"))
    hops = panes.with_columns(pl.int_ranges(col("pane") + 1, col("pane") + 6).alias("ends"))
    counts = hops.explode("ends").group_by("auction", col("ends") * 2000).agg(col("num").sum())
    most = counts.filter(col("num") == col("num").max().over("ends"))
    return most.select("auction", "num", "ends")


def q7(frames: Frames) -> pl.LazyFrame:
    most = col("price").max().over(col("dateTime") // 10_000)
    bids = frames.table("bid").filter(col("price") == most)
    return bids.select("auction", "price", "bidder", "dateTime", "extra")


def q8(frames: Frames) -> pl.LazyFrame:
    window = (col("dateTime") // 10_000 * 10_000).alias("window")
    persons = frames.table("person").select("id", "name", window)
    sellers = frames.table("auction").select("seller", window)
    return persons.join(
        sellers, left_on=["id", "window"], right_on=["seller", "window"], how="semi"
    )


def q9(frames: Frames) -> pl.LazyFrame:
    bid = ("auction", "bidder", "price", "dateTime", "extra")
    return _winners(frames).select(
        *QUERIES["q9"].columns["auction"], *(f"bid_{name}" for name in bid)
    )


def q10(frames: Frames) -> pl.LazyFrame:
    return frames.table("bid").with_columns(DAY, MINUTE)


def q13(frames: Frames) -> pl.LazyFrame:
    numbers = pl.LazyFrame({"side": range(10_000)}, schema={"side": pl.Int64})
    side = numbers.with_columns(text=pl.lit("side-") + col("side").cast(pl.String))
    return (
        frames.table("bid")
        .with_columns(side=col("auction") % 10_000)
        .join(side, on="side")
        .drop("side")
    )


def q14(frames: Frames) -> pl.LazyFrame:
    hour = time_of("dateTime").dt.hour()
    dollars = (col("price") * 0.908).alias("price")
    time = pl.when(hour.is_between(8, 18)).then(pl.lit("dayTime"))
    night = time.when((hour <= 6) | (hour >= 20)).then(pl.lit("nightTime"))
    return (
        frames.table("bid")
        .filter((dollars > 1_000_000) & (dollars < 50_000_000))
        .select(
            "auction",
            "bidder",
            dollars,
            night.otherwise(pl.lit("otherTime")).alias("time"),
            "dateTime",
            "extra",
            col("extra").str.count_matches("c", literal=True).alias("count"),
        )
    )


def q15(frames: Frames) -> pl.LazyFrame:
    return (
        frames.table("bid")
        .group_by(DAY)
        .agg(*_counts(), *_distinct("bidder"), *_distinct("auction"))
    )


def q16(frames: Frames) -> pl.LazyFrame:
    return (
        frames.table("bid")
        .with_columns(DAY, MINUTE)
        .group_by("channel", "day")
        .agg(col("minute").max(), *_counts(), *_distinct("bidder"), *_distinct("auction"))
    )


def q17(frames: Frames) -> pl.LazyFrame:
    price = col("price")
    return (
        frames.table("bid")
        .group_by("auction", DAY)
        .agg(
            *_counts(),
            price.min().alias("min"),
            price.max().alias("max"),
            (price.sum() / pl.len()).alias("mean"),
            price.sum().alias("sum"),
        )
    )


def q18(frames: Frames) -> pl.LazyFrame:
    order = ["dateTime", "price", "extra"]
    return frames.table("bid").sort(order).unique(["bidder", "auction"], keep="last")


def q19(frames: Frames) -> pl.LazyFrame:
    order = ["price", "dateTime", "bidder", "extra"]
    bids = frames.table("bid").sort(order, descending=[True, False, False, False])
    return bids.group_by("auction", maintain_order=True).head(10)


def q20(frames: Frames) -> pl.LazyFrame:
    auctions = frames.table("auction").filter(col("category") == 10)
    return frames.table("bid").join(auctions, left_on="auction", right_on="id")


def q21(frames: Frames) -> pl.LazyFrame:
    known = col("channel").str.to_lowercase()
    ids = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    named = col("url").str.extract(r"[?&]channel_id=([^&]*)", 1)
    found = known.replace_strict(ids, default=None, return_dtype=pl.String).fill_null(named)
    return (
        frames.table("bid")
        .select("auction", "bidder", "price", "channel", found.alias("id"))
        .filter(col("id").is_not_null() & (col("id") != ""))
    )


def q22(frames: Frames) -> pl.LazyFrame:
    parts = col("url").str.split("/")
    names = [parts.list.get(i).alias(f"part{i}") for i in (3, 4, 5)]
    return frames.table("bid").select("auction", "bidder", "price", "channel", *names)


def q23(frames: Frames) -> pl.LazyFrame:
    return (
        frames.table("bid")
        .join(frames.table("auction"), left_on="auction", right_on="id")
        .join(frames.table("person"), left_on="bidder", right_on="id")
    )


def rows(query: str, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a query's result."""
    return run(query, folder).rows()


def run(query: str, folder: Path) -> pl.DataFrame:
    """Return the result of a query.

    Raises:
        KeyError: The query is not written for Polars.
    """
    frame: pl.LazyFrame = FRAMES[query](Frames(folder, query))
    return frame.collect()


FRAMES = {name: globals()[name] for name in QUERIES if name in globals()}
