"""The columns that a query reads, and how its output becomes a result that can be compared.

A streaming program emits a new row for each change of a result.  Its final result is the last row
of each key, or the best rows of each key; DuckDB computes that at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Rows = "Iterable[tuple[Any, ...]]"

BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
SHORT_BID = ("auction", "bidder", "price", "dateTime", "extra")
AUCTION = (
    "id",
    "itemName",
    "description",
    "initialBid",
    "reserve",
    "dateTime",
    "expires",
    "seller",
    "category",
    "extra",
)


class Query(NamedTuple):
    """A query.

    Attributes:
        title: Its question.
        columns: By table, the columns that it reads.
        final: Computes the final result from the emitted rows.
    """

    title: str
    columns: dict[str, tuple[str, ...]]
    final: Callable[[Iterable[tuple[Any, ...]]], list[tuple[Any, ...]]] = list


def last_of(*positions: int) -> Callable[[Iterable[tuple[Any, ...]]], list[tuple[Any, ...]]]:
    """Return a function that keeps the last row of each key.

    Args:
        positions: The fields of the key.
    """

    def final(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return list({tuple(row[i] for i in positions): row for row in rows}.values())

    return final


def rank_in_auction(bid: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sort key of bids, the best one first."""
    return (-bid[2], bid[5], bid[1], bid[6])


def ten_best(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Keep the ten best bids of each auction."""
    bids = defaultdict(list)
    for row in rows:
        bids[row[0]].append(row)
    return [row for found in bids.values() for row in sorted(found, key=rank_in_auction)[:10]]


QUERIES = {
    "q0": Query("pass through", {"bid": SHORT_BID}),
    "q1": Query("currency conversion", {"bid": SHORT_BID}),
    "q2": Query("selection", {"bid": ("auction", "price")}),
    "q3": Query(
        "local items",
        {"person": ("id", "name", "city", "state"), "auction": ("id", "seller", "category")},
    ),
    "q4": Query(
        "average price of a category",
        {
            "auction": ("id", "dateTime", "expires", "category"),
            "bid": ("auction", "price", "dateTime"),
        },
        last_of(0),
    ),
    "q5": Query("hot items", {"bid": ("auction", "dateTime")}),
    "q6": Query(
        "average price of a seller's last auctions",
        {
            "auction": ("id", "dateTime", "expires", "seller"),
            "bid": ("auction", "price", "dateTime"),
        },
    ),
    "q7": Query("highest bid", {"bid": SHORT_BID}),
    "q8": Query(
        "new users",
        {"person": ("id", "name", "dateTime"), "auction": ("seller", "dateTime")},
    ),
    "q9": Query("winning bids", {"auction": AUCTION, "bid": SHORT_BID}),
    "q10": Query("bids by day and minute", {"bid": SHORT_BID}),
    "q11": Query("user sessions", {"bid": ("bidder", "dateTime")}),
    "q13": Query("join with a side input", {"bid": ("auction", "bidder", "price", "dateTime")}),
    "q14": Query("calculation", {"bid": SHORT_BID}),
    "q15": Query(
        "bidding statistics of a day",
        {"bid": ("auction", "bidder", "price", "dateTime")},
        last_of(0),
    ),
    "q16": Query(
        "channel statistics of a day",
        {"bid": ("auction", "bidder", "price", "channel", "dateTime")},
        last_of(0, 1),
    ),
    "q17": Query(
        "auction statistics of a day", {"bid": ("auction", "price", "dateTime")}, last_of(0, 1)
    ),
    "q18": Query("last bid of a bidder in an auction", {"bid": BID}, last_of(0, 1)),
    "q19": Query("ten highest bids of an auction", {"bid": BID}, ten_best),
    "q20": Query("bids with their auctions of a category", {"auction": AUCTION, "bid": BID}),
    "q21": Query("channel id", {"bid": ("auction", "bidder", "price", "channel", "url")}),
    "q22": Query("parts of URLs", {"bid": ("auction", "bidder", "price", "channel", "url")}),
    "q23": Query(
        "bids with their auctions and bidders",
        {
            "person": ("id", "name", "city"),
            "auction": ("id", "itemName", "category"),
            "bid": ("auction", "bidder", "price", "url"),
        },
    ),
}
"""Without q12, whose windows use the machine's clock: its results cannot be checked."""


def remaining(rows: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    """Return the rows that remain after all changes; rows that are no `Row` are insertions."""
    from penstock.common import Row, RowKind

    removing = (RowKind.DELETE, RowKind.UPDATE_BEFORE)
    given = list(rows)
    removed = [isinstance(row, Row) and row.get_row_kind() in removing for row in given]
    if not any(removed):
        return map(tuple, given)
    counts: Counter[tuple[Any, ...]] = Counter()
    for row, is_removed in zip(given, removed, strict=True):
        counts[tuple(row)] += -1 if is_removed else 1
    return counts.elements()


def difference(query: str, emitted: Iterable[tuple[Any, ...]], expected: Rows) -> str | None:
    """Compare the final result of emitted rows with the expected one.

    Returns:
        None if they are equal, else an example of a difference.
    """
    found = Counter(QUERIES[query].final(remaining(emitted)))
    wanted = Counter(expected)
    if found == wanted:
        return None
    missing, surplus = wanted - found, found - wanted
    return (
        f"{query}: {missing.total()} rows are missing, such as {next(iter(missing), None)}; "
        f"{surplus.total()} are surplus, such as {next(iter(surplus), None)}"
    )
