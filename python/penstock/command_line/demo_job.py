"""The program of ``penstock demo``: an endless stream of generated orders of a shop.

It has features worth watching: two sources, keyed state, event-time windows, a task that is slower
than its producers, and an operator that fails from time to time, so that the job restarts from its
checkpoint.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import SourceFunction, StreamExecutionEnvironment
from penstock.datastream.functions import FilterFunction, MapFunction, ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream import RuntimeContext

JOB_NAME: Final = "Orders of a shop"
PRODUCTS: Final = ("apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey")
PAUSE_S: Final = 0.002
BATCH: Final = 8
WINDOW_S: Final = 5
LATEST_MS: Final = 2_000
FAILURES_APART_S: Final = 120.0


class MadeUpOrders(SourceFunction):
    """Emits orders: number, product, quantity, time (ms), roughly in time order."""

    def run(self, ctx: Any) -> None:
        """Emit until the job ends."""
        rng, number = random.Random(), 0
        while ctx.is_running():
            for _ in range(BATCH):
                # Some products sell better than others: their subtasks have more work.
                product = PRODUCTS[min(int(rng.expovariate(0.6)), len(PRODUCTS) - 1)]
                at_ms = time.time_ns() // 1_000_000 - rng.randrange(LATEST_MS)
                ctx.collect((number, product, rng.randint(1, 5), at_ms))
                number += 1
            time.sleep(PAUSE_S)


class MadeUpPrices(SourceFunction):
    """Emits prices: product and price in cents."""

    def run(self, ctx: Any) -> None:
        """Emit until the job ends."""
        rng = random.Random()
        while ctx.is_running():
            ctx.collect((rng.choice(PRODUCTS), rng.randint(50, 900)))
            time.sleep(0.05)


class Priced(MapFunction):
    """Adds an order's price, slowly."""

    def map(self, value: Any) -> Any:
        """Return an order with its amount in cents."""
        number, product, quantity, at_ms = value
        deadline_ns = time.perf_counter_ns() + 120_000
        while time.perf_counter_ns() < deadline_ns:
            pass
        return product, quantity, quantity * (100 + len(product) * 37 + number % 7), at_ms


class MayFail(FilterFunction):
    """Forwards all records, and raises from time to time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Schedule the first failure."""
        self._is_first = runtime_context.get_index_of_this_subtask() == 0
        self._next_s = time.monotonic() + FAILURES_APART_S

    def filter(self, value: Any) -> bool:
        """Return True, or raise an exception."""
        if self._is_first and time.monotonic() > self._next_s:
            raise ConnectionError(f"the warehouse does not answer for {value[0]}")
        return True


class Sales(ProcessWindowFunction[Any, Any, Any, Any]):
    """Adds up the orders of a product in a window."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        """Yield one line for each product and window."""
        orders = list(elements)
        end_ms = context.window().max_timestamp() + 1
        yield key, len(orders), sum(order[2] for order in orders), end_ms


class _EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # noqa: ARG002
        return int(value[3])


def _better(one: Any, other: Any) -> Any:
    return one if one[2] >= other[2] else other


def _cheaper(one: Any, other: Any) -> Any:
    return one if one[1] <= other[1] else other


def _described(sale: Any) -> str:
    product, orders, cents, end_ms = sale
    return f"{end_ms}: {product}, {orders} orders, {cents / 100:.2f}"


def build(env: StreamExecutionEnvironment) -> None:
    """Add the job to an environment."""
    order = Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT(), Types.LONG()])
    priced = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.LONG()])
    sale = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG(), Types.LONG()])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(LATEST_MS)
    ).with_timestamp_assigner(_EventTime())
    orders = env.add_source(MadeUpOrders(), "Orders", order)
    timed = orders.assign_timestamps_and_watermarks(strategy).name("Event time")
    bought = (
        timed.rebalance()
        .map(Priced(), priced)
        .name("Price")
        .filter(MayFail())
        .name("Ask the warehouse")
    )
    sales = (
        bought.key_by(lambda one: one[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(WINDOW_S)))
        .process(Sales(), sale)
        .name("Sales in five seconds")
    )
    sales.key_by(lambda one: one[3], Types.LONG()).reduce(_better).name("Best product").map(
        _described, Types.STRING()
    ).name("Report").sink_to(DiscardingSink()).name("Screen of the office")
    prices = env.add_source(MadeUpPrices(), "Prices", Types.TUPLE([Types.STRING(), Types.INT()]))
    prices.key_by(lambda one: one[0], Types.STRING()).reduce(_cheaper).name("Lowest price").sink_to(
        DiscardingSink()
    ).name("Price tags")


if __name__ == "__main__":
    environment = StreamExecutionEnvironment.get_execution_environment()
    build(environment)
    environment.execute(JOB_NAME)
