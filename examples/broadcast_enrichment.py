"""Prices in a currency, converted by rates that every subtask has.

    python examples/broadcast_enrichment.py

A rate may arrive after the price that needs it: such a price waits for a minute of event time.
"""

from penstock.common import Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor

PRICE = Types.TUPLE([Types.STRING(), Types.STRING(), Types.DOUBLE(), Types.LONG()])
RATE = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
CONVERTED = Types.TUPLE([Types.STRING(), Types.DOUBLE()])

PRICES = [("tea", "EUR", 2.0, 0), ("cake", "JPY", 500.0, 1000), ("jam", "EUR", 3.0, 2000)]
RATES = [("EUR", 1.25), ("JPY", 0.0078125)]
MINUTE_MS = 60_000
RATES_STATE = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
WAITING_STATE = ListStateDescriptor("waiting", PRICE)


class PriceTime(TimestampAssigner):
    """The time of a price is its fourth field, in ms."""

    def extract_timestamp(self, value, record_timestamp):
        return value[3]


class Convert(KeyedBroadcastProcessFunction):
    """Multiplies by the rate of the currency, which is the key."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(WAITING_STATE)

    def process_element(self, value, ctx):
        rate = ctx.get_broadcast_state(RATES_STATE).get(value[1])
        if rate is None:
            self.waiting.add(value)
            ctx.timer_service().register_event_time_timer(value[3] + MINUTE_MS)
        else:
            yield value[0], value[2] * rate

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RATES_STATE).put(*value)
        return ()

    def on_timer(self, timestamp, ctx):
        waiting = list(self.waiting)
        self.waiting.clear()
        for item, currency, amount, _ in waiting:
            rate = ctx.get_broadcast_state(RATES_STATE).get(currency)
            yield item, None if rate is None else amount * rate


def define(env):
    """Return the stream of converted prices."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PriceTime())
    prices = env.from_collection(PRICES, PRICE).assign_timestamps_and_watermarks(strategy)
    rates = env.from_collection(RATES, RATE).broadcast(RATES_STATE)
    by_currency = prices.key_by(lambda price: price[1], Types.STRING())
    return by_currency.connect(rates).process(Convert(), CONVERTED)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("broadcast enrichment")
