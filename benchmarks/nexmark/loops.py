"""One plain Python loop for each query: it reads the needed columns, and yields the query's output.

A query with running results yields a row for each change, as a stream does.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from nexmark.results import QUERIES
from nexmark.texts import channel_id, day_of, minute_of, side_input, time_of_day
from pyarrow import dataset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Row = tuple[Any, ...]


def rows(folder: Path, query: str, table: str) -> Iterator[Row]:
    """Yield the columns of a table that a query needs, as tuples."""
    columns = list(QUERIES[query].columns[table])
    for batch in dataset.dataset(folder / table).to_batches(columns=columns, use_threads=False):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def q0(folder: Path) -> Iterator[Row]:
    yield from rows(folder, "q0", "bid")


def q1(folder: Path) -> Iterator[Row]:
    for auction, bidder, price, time, extra in rows(folder, "q1", "bid"):
        yield auction, bidder, price * 0.908, time, extra


def q2(folder: Path) -> Iterator[Row]:
    for auction, price in rows(folder, "q2", "bid"):
        if auction % 123 == 0:
            yield auction, price


def q3(folder: Path) -> Iterator[Row]:
    persons = {
        number: (name, city, state)
        for number, name, city, state in rows(folder, "q3", "person")
        if state in ("OR", "ID", "CA")
    }
    for number, seller, category in rows(folder, "q3", "auction"):
        if category == 10 and (person := persons.get(seller)) is not None:
            yield *person, number


def q4(folder: Path) -> Iterator[Row]:
    auctions = {number: [b, e, c, 0] for number, b, e, c in rows(folder, "q4", "auction")}
    totals = defaultdict(lambda: [0, 0])
    for number, price, time in rows(folder, "q4", "bid"):
        auction = auctions.get(number)
        if auction is None:
            continue
        begins, ends, category, best = auction
        if begins <= time <= ends and price > best:
            auction[3] = price
            total = totals[category]
            total[0] += price - best
            total[1] += best == 0
            yield category, total[0] / total[1]


def q5(folder: Path) -> Iterator[Row]:
    panes = defaultdict(Counter)
    for auction, time in rows(folder, "q5", "bid"):
        panes[time // 2000][auction] += 1
    for end in range(min(panes) + 1, max(panes) + 6) if panes else ():
        counts = Counter()
        for pane in range(end - 5, end):
            counts.update(panes.get(pane, ()))
        if counts:
            most = max(counts.values())
            for auction, count in counts.items():
                if count == most:
                    yield auction, count, end * 2000


def winners(folder: Path, query: str) -> dict[int, list[Any]]:
    """Return the winning bids by auction: the order, the bid and the auction's fields."""
    auctions = {row[0]: [None, None, row] for row in rows(folder, query, "auction")}
    columns = QUERIES[query].columns
    begins, ends = (columns["auction"].index(name) for name in ("dateTime", "expires"))
    price, time = (columns["bid"].index(name) for name in ("price", "dateTime"))
    for bid in rows(folder, query, "bid"):
        found = auctions.get(bid[0])
        if found is None:
            continue
        auction = found[2]
        if auction[begins] <= bid[time] <= auction[ends]:
            order = (-bid[price], bid[time], *bid[1:])
            if found[0] is None or order < found[0]:
                found[0], found[1] = order, bid
    return {number: found for number, found in auctions.items() if found[1] is not None}


def q6(folder: Path) -> Iterator[Row]:
    sellers = defaultdict(list)
    closed = (
        (expires, number, seller, bid[1])
        for _, bid, (number, _, expires, seller) in winners(folder, "q6").values()
    )
    for _, number, seller, price in sorted(closed):
        last = sellers[seller]
        last.append(price)
        if len(last) > 10:
            del last[0]
        yield seller, number, sum(last) / len(last)


def q7(folder: Path) -> Iterator[Row]:
    windows = defaultdict(list)
    for auction, bidder, price, time, extra in rows(folder, "q7", "bid"):
        best = windows[time // 10_000]
        if not best or price > best[0][1]:
            best[:] = [(auction, price, bidder, time, extra)]
        elif price == best[0][1]:
            best.append((auction, price, bidder, time, extra))
    for best in windows.values():
        yield from best


def q8(folder: Path) -> Iterator[Row]:
    sellers = {(seller, time // 10_000) for seller, time in rows(folder, "q8", "auction")}
    for number, name, time in rows(folder, "q8", "person"):
        if (number, time // 10_000) in sellers:
            yield number, name, time // 10_000 * 10_000


def q9(folder: Path) -> Iterator[Row]:
    for _, (number, bidder, price, time, extra), auction in winners(folder, "q9").values():
        yield *auction, number, bidder, price, time, extra


def q10(folder: Path) -> Iterator[Row]:
    for auction, bidder, price, time, extra in rows(folder, "q10", "bid"):
        yield auction, bidder, price, time, extra, day_of(time), minute_of(time)


def q11(folder: Path) -> Iterator[Row]:
    sessions: dict[int, list[int]] = {}
    for bidder, time in rows(folder, "q11", "bid"):
        session = sessions.get(bidder)
        if session is None:
            sessions[bidder] = [1, time, time]
        elif time - session[2] > 10_000:
            yield bidder, session[0], session[1], session[2] + 10_000
            sessions[bidder] = [1, time, time]
        else:
            session[0] += 1
            session[2] = time
    for bidder, (count, begin, end) in sessions.items():
        yield bidder, count, begin, end + 10_000


def q13(folder: Path) -> Iterator[Row]:
    side = side_input()
    for auction, bidder, price, time in rows(folder, "q13", "bid"):
        yield auction, bidder, price, time, side[auction % 10_000]


def q14(folder: Path) -> Iterator[Row]:
    for auction, bidder, price, time, extra in rows(folder, "q14", "bid"):
        dollars = price * 0.908
        if 1_000_000 < dollars < 50_000_000:
            yield auction, bidder, dollars, time_of_day(time), time, extra, extra.count("c")


def _counted(counts: list[int], price: int, new: int = 1) -> None:
    """Count a bid among all and in its range of prices."""
    counts[0] += new
    counts[1 if price < 10_000 else 2 if price < 1_000_000 else 3] += new


def _seen(seen: list[set[int]], price: int, number: int) -> None:
    """Add an id to the set of all and to that of a range of prices."""
    seen[0].add(number)
    seen[1 if price < 10_000 else 2 if price < 1_000_000 else 3].add(number)


def q15(folder: Path) -> Iterator[Row]:
    days: dict[str, tuple[list[int], list[set[int]], list[set[int]]]] = {}
    for auction, bidder, price, time in rows(folder, "q15", "bid"):
        day = day_of(time)
        if day not in days:
            days[day] = ([0] * 4, [set() for _ in range(4)], [set() for _ in range(4)])
        counts, bidders, auctions = days[day]
        _counted(counts, price)
        _seen(bidders, price, bidder)
        _seen(auctions, price, auction)
        yield day, *counts, *map(len, bidders), *map(len, auctions)


def q16(folder: Path) -> Iterator[Row]:
    channels: dict[tuple[str, str], list[Any]] = {}
    for auction, bidder, price, channel, time in rows(folder, "q16", "bid"):
        key = channel, day_of(time)
        found = channels.get(key)
        if found is None:
            found = channels[key] = [
                "",
                [0] * 4,
                [set() for _ in range(4)],
                [set() for _ in range(4)],
            ]
        found[0] = max(found[0], minute_of(time))
        _counted(found[1], price)
        _seen(found[2], price, bidder)
        _seen(found[3], price, auction)
        yield *key, found[0], *found[1], *map(len, found[2]), *map(len, found[3])


def q17(folder: Path) -> Iterator[Row]:
    auctions: dict[tuple[int, str], list[Any]] = {}
    for auction, price, time in rows(folder, "q17", "bid"):
        key = auction, day_of(time)
        found = auctions.get(key)
        if found is None:
            found = auctions[key] = [[0] * 4, price, price, 0]
        counts = found[0]
        _counted(counts, price)
        found[1] = min(found[1], price)
        found[2] = max(found[2], price)
        found[3] += price
        yield *key, *counts, found[1], found[2], found[3] / counts[0], found[3]


def q18(folder: Path) -> Iterator[Row]:
    last: dict[tuple[int, int], Row] = {}
    for bid in rows(folder, "q18", "bid"):
        auction, bidder, price, _, _, time, extra = bid
        before = last.get((auction, bidder))
        if before is None or (time, price, extra) >= (before[5], before[2], before[6]):
            last[auction, bidder] = bid
            yield bid


def q19(folder: Path) -> Iterator[Row]:
    best: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for bid in rows(folder, "q19", "bid"):
        auction, bidder, price, _, _, time, extra = bid
        found = best[auction]
        if len(found) < 10 or price >= -found[-1][0]:
            ranked = (-price, time, bidder, extra)
            if len(found) == 10:
                if ranked >= found[-1]:
                    continue
                found.pop()
            insort(found, ranked)
            yield bid


def q20(folder: Path) -> Iterator[Row]:
    auctions = {row[0]: row[1:] for row in rows(folder, "q20", "auction") if row[8] == 10}
    for bid in rows(folder, "q20", "bid"):
        auction = auctions.get(bid[0])
        if auction is not None:
            yield *bid, *auction


def q21(folder: Path) -> Iterator[Row]:
    for auction, bidder, price, channel, url in rows(folder, "q21", "bid"):
        found = channel_id(channel, url)
        if found is not None:
            yield auction, bidder, price, channel, found


def q22(folder: Path) -> Iterator[Row]:
    for auction, bidder, price, channel, url in rows(folder, "q22", "bid"):
        parts = url.split("/")
        yield auction, bidder, price, channel, parts[3], parts[4], parts[5]


def q23(folder: Path) -> Iterator[Row]:
    persons = {number: (name, city) for number, name, city in rows(folder, "q23", "person")}
    auctions = {
        number: (item, category) for number, item, category in rows(folder, "q23", "auction")
    }
    for auction, bidder, price, url in rows(folder, "q23", "bid"):
        item, person = auctions.get(auction), persons.get(bidder)
        if item is not None and person is not None:
            yield auction, bidder, price, url, *item, *person


LOOPS = {name: globals()[name] for name in QUERIES}
