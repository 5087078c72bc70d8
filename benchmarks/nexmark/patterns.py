"""Nexmark's patterns (queries-cep q0 to q3): as patterns of `penstock.cep`, and as plain loops.

    python benchmarks/nexmark/patterns.py [--events 1000000] [--query cep0 ...]

Each is about the bids of one bidder in one auction, in time order.  The loops use no automata: they
try each bid as the first one of a match, one after the other, following the skip strategies.  The
program compares both and prints the rate of the job.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from nexmark.loops import rows
from penstock.cep import CEP, Pattern, SkipStrategy
from penstock.common import Duration, Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nexmark.tables import Tables
    from penstock.datastream.data_stream import DataStream

#: The other query that reads the same columns: auction, bidder, price, time.
COLUMNS = "q13"
LEAST_AVERAGE = 10_000
DROP = 50
DROP_MS = 5_000
FIVE_LONGS = Types.TUPLE([Types.LONG()] * 5)

Bid = tuple[int, int, int, int]


# ---- patterns ------------------------------------------------------------------------------------


def falling() -> Pattern:
    """Return the pattern of a price that falls several times and then rises."""
    begun = Pattern.begin("start", SkipStrategy.skip_to_last("up"))
    down = begun.next("down").where(lambda bid, ctx: bid.price < ctx.last("down", "start").price)
    return (
        down.one_or_more()
        .consecutive()
        .greedy()
        .next("up")
        .where(lambda bid, ctx: _is_above_last_but_one(bid, ctx.get_events_for_pattern("down")))
    )


def _is_above_last_but_one(bid: Any, downs: list[Any]) -> bool:
    return len(downs) > 1 and bid.price > downs[-2].price


def below_average(skip: SkipStrategy) -> Pattern:
    """Return the pattern of bids with a low average, and the bid that ends them."""
    low = Pattern.begin("low", skip).where(
        lambda bid, ctx: _average([*ctx.get_events_for_pattern("low"), bid]) < LEAST_AVERAGE
    )
    return low.one_or_more().consecutive().greedy().next("end")


def _average(bids: list[Any]) -> int:
    return sum(bid.price for bid in bids) // len(bids)


def dropping() -> Pattern:
    """Return the pattern of a price that drops within five seconds."""
    begun = Pattern.begin("first", SkipStrategy.skip_past_last_event())
    high = begun.next("high").where(lambda bid, ctx: bid.price > ctx.first("first").price - DROP)
    return (
        high.one_or_more()
        .consecutive()
        .greedy()
        .optional()
        .next("low")
        .where(lambda bid, ctx: bid.price < ctx.first("first").price - DROP)
        .within(Duration.of_millis(DROP_MS))
    )


def _fell(match: dict[str, list[Any]]) -> Bid | tuple[int, ...]:
    start, down, up = match["start"][0], match["down"][-1], match["up"][0]
    return start.auction, start.bidder, start.dateTime, down.dateTime, up.dateTime


def _averaged(match: dict[str, list[Any]]) -> tuple[int, ...]:
    low = match["low"]
    return low[0].auction, low[0].bidder, low[0].dateTime, low[-1].dateTime, _average(low)


def _dropped(match: dict[str, list[Any]]) -> tuple[int, ...]:
    first, low = match["first"][0], match["low"][0]
    return first.auction, first.bidder, first.dateTime, low.dateTime, first.price - low.price


PATTERNS = {
    "cep0": (falling, _fell),
    "cep1": (lambda: below_average(SkipStrategy.skip_past_last_event()), _averaged),
    "cep2": (lambda: below_average(SkipStrategy.skip_to_next()), _averaged),
    "cep3": (dropping, _dropped),
}


def matches(query: str, tables: Tables) -> DataStream[Any]:
    """Return the matches of a pattern in the bids of each bidder and auction."""
    build, result = PATTERNS[query]
    key = Types.TUPLE([Types.LONG(), Types.LONG()])
    bids = tables.timed("bid").key_by(lambda bid: (bid.auction, bid.bidder), key)
    return CEP.pattern(bids, build()).select(result, FIVE_LONGS)


# ---- loops ---------------------------------------------------------------------------------------


def loop(query: str, folder: Path) -> Iterator[tuple[int, ...]]:
    """Yield the same matches, found without automata."""
    bids_of: dict[tuple[int, int], list[Bid]] = defaultdict(list)
    for bid in rows(folder, COLUMNS, "bid"):
        bids_of[bid[:2]].append(bid)
    for bids in bids_of.values():
        bids.sort(key=lambda bid: bid[3])
        yield from LOOPS[query](bids)


def loop_falling(bids: list[Bid]) -> Iterator[tuple[int, ...]]:
    first = 0
    while first < len(bids):
        at = first + 1
        while at < len(bids) and bids[at][2] < bids[at - 1][2]:
            at += 1
        if at < len(bids) and at > first + 2 and bids[at][2] > bids[at - 2][2]:
            yield *bids[first][:2], bids[first][3], bids[at - 1][3], bids[at][3]
            first = at
        else:
            first += 1


def loop_averages(bids: list[Bid], *, past_last: bool) -> Iterator[tuple[int, ...]]:
    first = 0
    while first < len(bids):
        at, total = first, 0
        while at < len(bids) and (total + bids[at][2]) // (at - first + 1) < LEAST_AVERAGE:
            total += bids[at][2]
            at += 1
        if at == len(bids):
            # Later matches wait for one that may still end.
            return
        if at > first:
            average = total // (at - first)
            yield *bids[first][:2], bids[first][3], bids[at - 1][3], average
        first = at + 1 if past_last and at > first else first + 1


def loop_dropping(bids: list[Bid]) -> Iterator[tuple[int, ...]]:
    first = 0
    while first < len(bids):
        least = bids[first][2] - DROP
        at = first + 1
        while at < len(bids) and bids[at][2] > least:
            at += 1
        is_low = at < len(bids) and bids[at][2] < least
        if is_low and bids[at][3] - bids[first][3] < DROP_MS:
            drop = bids[first][2] - bids[at][2]
            yield *bids[first][:2], bids[first][3], bids[at][3], drop
            first = at + 1
        else:
            first += 1


LOOPS = {
    "cep0": loop_falling,
    "cep1": lambda bids: loop_averages(bids, past_last=True),
    "cep2": lambda bids: loop_averages(bids, past_last=False),
    "cep3": loop_dropping,
}


# ---- comparison ----------------------------------------------------------------------------------


def found(query: str, folder: Path, **options: str) -> Counter[tuple[int, ...]]:
    """Run a pattern as a job and count its matches.

    Args:
        query: The pattern.
        folder: A folder written by `events.write`.
        **options: Options of the job, with underscores for dots.
    """
    from nexmark.tables import Tables
    from penstock.common import Configuration
    from penstock.datastream import StreamExecutionEnvironment

    given = {"execution.target": "local"}
    given |= {name.replace("_", "."): value for name, value in options.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    env.set_parallelism(1)
    stream = matches(query, Tables(env, folder, COLUMNS))
    with stream.execute_and_collect() as results:
        return Counter(map(tuple, results))


def main() -> None:
    """Compare and measure."""
    from nexmark import events

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = events.write(Path(scratch), given.events)
        for query in given.query:
            begun = time.perf_counter()
            result = found(query, folder)
            seconds = time.perf_counter() - begun
            verdict = "equal" if result == Counter(loop(query, folder)) else "DIFFERENT"
            print(
                f"{query}: {result.total()} matches, {verdict}; "
                f"{given.events / seconds:,.0f} events/s, start included",
                flush=True,
            )


if __name__ == "__main__":
    main()
