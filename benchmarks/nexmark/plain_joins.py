"""The queries that join tables, as plain Python functions over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexmark.results import QUERIES
from nexmark.tables import row_type
from penstock.common import Time, Types
from penstock.datastream.functions import (
    CoGroupFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nexmark.tables import Tables
    from penstock.datastream import RuntimeContext
    from penstock.datastream.data_stream import DataStream

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()


class Lookup(KeyedCoProcessFunction):
    """Joins rows with the single row of their key, which may arrive later."""

    def __init__(self, one_type: Any, many_type: Any, joined: Callable[[Any, Any], Any]) -> None:
        """Join two streams.

        Args:
            one_type: The type of the first stream's rows, of which each key has one.
            many_type: The type of the other rows.
            joined: Creates the result of one of these and that row.
        """
        self.one_type = one_type
        self.many_type = many_type
        self.joined = joined

    def open(self, runtime_context: RuntimeContext) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one", self.one_type))
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", self.many_type)
        )

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.one.update(value)
        for row in self.waiting.get():
            yield self.joined(row, value)
        self.waiting.clear()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        one = self.one.value()
        if one is None:
            self.waiting.add(value)
        else:
            yield self.joined(value, one)


def q3(tables: Tables) -> DataStream[Any]:
    class Local(KeyedCoProcessFunction):
        """Joins auctions with their sellers."""

        def open(self, runtime_context: RuntimeContext) -> None:
            self.seller = runtime_context.get_state(
                ValueStateDescriptor("seller", row_type("q3", "person"))
            )
            self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", LONG))

        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.seller.update(value)
            for auction in self.waiting.get():
                yield value.name, value.city, value.state, auction
            self.waiting.clear()

        def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
            seller = self.seller.value()
            if seller is None:
                self.waiting.add(value.id)
            else:
                yield seller.name, seller.city, seller.state, value.id

    persons = tables.rows("person").filter(lambda person: person.state in ("OR", "ID", "CA"))
    auctions = tables.rows("auction").filter(lambda auction: auction.category == 10)
    return (
        persons.key_by(lambda person: person.id, LONG)
        .connect(auctions.key_by(lambda auction: auction.seller, LONG))
        .process(Local(), Types.TUPLE([STRING, STRING, STRING, LONG]))
    )


class WinningBid(KeyedCoProcessFunction):
    """Emits each auction with its highest bid when the auction has closed.

    A bid may arrive before its auction.  When event time has reached the bid, the auction has
    arrived or the bid does not count; later bids may still belong to it.
    """

    def __init__(self, query: str, result: Callable[[Any, Any], Any]) -> None:
        """Find winners.

        Args:
            query: Names the columns.
            result: Creates the result of an auction and its winning bid.
        """
        self.query = query
        self.result = result

    def open(self, runtime_context: RuntimeContext) -> None:
        bid_type = row_type(self.query, "bid")
        self.has_extra = "extra" in QUERIES[self.query].columns["bid"]
        self.auction = runtime_context.get_state(
            ValueStateDescriptor("auction", row_type(self.query, "auction"))
        )
        self.best = runtime_context.get_state(ValueStateDescriptor("best", bid_type))
        self.early = runtime_context.get_list_state(ListStateDescriptor("early", bid_type))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.auction.update(value)
        ctx.timer_service().register_event_time_timer(value.expires)
        for bid in self.early.get():
            self.consider(value, bid)
        self.early.clear()

    def process_element2(self, value: Any, ctx: Any) -> None:
        auction = self.auction.value()
        if auction is None:
            self.early.add(value)
            ctx.timer_service().register_event_time_timer(value.dateTime)
        else:
            self.consider(auction, value)

    def consider(self, auction: Any, bid: Any) -> None:
        """Store a bid if it is the best one."""
        if auction.dateTime <= bid.dateTime <= auction.expires:
            best = self.best.value()
            if best is None or self.order(bid) < self.order(best):
                self.best.update(bid)

    def order(self, bid: Any) -> tuple[Any, ...]:
        """Return the sort key of bids."""
        if self.has_extra:
            return -bid.price, bid.dateTime, bid.bidder, bid.extra
        return (-bid.price,)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        auction = self.auction.value()
        if auction is None:
            self.early.update([bid for bid in self.early.get() if bid.dateTime > timestamp])
        elif timestamp >= auction.expires:
            best = self.best.value()
            if best is not None:
                yield self.result(auction, best)
            self.auction.clear()
            self.best.clear()


def winning_bids(
    tables: Tables, query: str, result: Callable[[Any, Any], Any], output_type: Any
) -> DataStream[Any]:
    """Return the winning bids of all auctions with that."""
    auctions = tables.timed("auction").key_by(lambda auction: auction.id, LONG)
    bids = tables.timed("bid").key_by(lambda bid: bid.auction, LONG)
    return auctions.connect(bids).process(WinningBid(query, result), output_type)


def q4(tables: Tables) -> DataStream[Any]:
    finals = winning_bids(
        tables,
        "q4",
        lambda auction, bid: (auction.category, bid.price, 1),
        Types.TUPLE([LONG, LONG, LONG]),
    )
    totals = finals.key_by(lambda final: final[0], LONG).reduce(
        lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])
    )
    return totals.map(lambda total: (total[0], total[1] / total[2]), Types.TUPLE([LONG, DOUBLE]))


class LastTen(KeyedProcessFunction):
    """Emits the average of a seller's last ten prices, in the order in which auctions closed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.closed = runtime_context.get_state(
            ValueStateDescriptor("closed", Types.PICKLED_BYTE_ARRAY())
        )
        self.prices = runtime_context.get_state(
            ValueStateDescriptor("prices", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: Any) -> None:
        closed = self.closed.value() or []
        closed.append(value)
        self.closed.update(closed)
        ctx.timer_service().register_event_time_timer(value[2])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        closed = sorted(self.closed.value(), key=lambda row: (row[2], row[1]))
        prices = self.prices.value() or []
        while closed and closed[0][2] <= timestamp:
            seller, auction, _, price = closed.pop(0)
            prices = [*prices, price][-10:]
            yield seller, auction, sum(prices) / len(prices)
        self.closed.update(closed)
        self.prices.update(prices)


def q6(tables: Tables) -> DataStream[Any]:
    finals = winning_bids(
        tables,
        "q6",
        lambda auction, bid: (auction.seller, auction.id, auction.expires, bid.price),
        Types.TUPLE([LONG, LONG, LONG, LONG]),
    )
    return finals.key_by(lambda final: final[0], LONG).process(
        LastTen(), Types.TUPLE([LONG, LONG, DOUBLE])
    )


class NewSeller(CoGroupFunction):
    """Emits a person who has opened an auction in the window of the registration."""

    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any]:
        if second:
            for person in first:
                yield person.id, person.name, person.dateTime // 10_000 * 10_000


def q8(tables: Tables) -> DataStream[Any]:
    persons, auctions = tables.timed("person"), tables.timed("auction")
    return (
        persons.co_group(auctions)
        .where(lambda person: person.id, LONG)
        .equal_to(lambda auction: auction.seller)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .apply(NewSeller(), Types.TUPLE([LONG, STRING, LONG]))
    )


AUCTION = [LONG, STRING, STRING, LONG, LONG, LONG, LONG, LONG, LONG, STRING]
BID = [LONG, LONG, LONG, STRING, STRING, LONG, STRING]


def q9(tables: Tables) -> DataStream[Any]:
    return winning_bids(
        tables,
        "q9",
        lambda auction, bid: (*auction, *bid),
        Types.TUPLE([*AUCTION, LONG, LONG, LONG, LONG, STRING]),
    )


def q20(tables: Tables) -> DataStream[Any]:
    auctions = tables.rows("auction").filter(lambda auction: auction.category == 10)
    bids = tables.rows("bid")
    lookup = Lookup(
        auctions.get_type(),
        bids.get_type(),
        # The id of the auction is that of the bid.
        lambda bid, auction: (*bid, *tuple(auction)[1:]),
    )
    return (
        auctions.key_by(lambda auction: auction.id, LONG)
        .connect(bids.key_by(lambda bid: bid.auction, LONG))
        .process(lookup, Types.TUPLE([*BID, *AUCTION[1:]]))
    )


def q23(tables: Tables) -> DataStream[Any]:
    persons, auctions, bids = (tables.rows(name) for name in ("person", "auction", "bid"))
    with_auction = Types.TUPLE([LONG, LONG, LONG, STRING, STRING, LONG])
    expanded = (
        auctions.key_by(lambda auction: auction.id, LONG)
        .connect(bids.key_by(lambda bid: bid.auction, LONG))
        .process(
            Lookup(
                auctions.get_type(),
                bids.get_type(),
                lambda bid, auction: (
                    bid.auction,
                    bid.bidder,
                    bid.price,
                    bid.url,
                    auction.itemName,
                    auction.category,
                ),
            ),
            with_auction,
        )
    )
    return (
        persons.key_by(lambda person: person.id, LONG)
        .connect(expanded.key_by(lambda bid: bid[1], LONG))
        .process(
            Lookup(
                persons.get_type(),
                with_auction,
                lambda bid, person: (*bid, person.name, person.city),
            ),
            Types.TUPLE([LONG, LONG, LONG, STRING, STRING, LONG, STRING, STRING]),
        )
    )
