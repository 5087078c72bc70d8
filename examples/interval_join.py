"""Orders with the payments made within an hour after them.

    python examples/interval_join.py

Prints the number, the item and the means of payment of each paid order.
"""

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import ProcessJoinFunction

EVENT = Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG()])
PAID = Types.TUPLE([Types.INT(), Types.STRING(), Types.STRING()])
HOUR_MS = 3_600_000

ORDERS = [(1, "tea", 0), (2, "cake", 1000), (3, "jam", 2000)]
PAYMENTS = [(1, "card", 60_000), (3, "cash", 90_000), (2, "card", 1000 + 2 * HOUR_MS)]


class EventTime(TimestampAssigner):
    """The time of an event is its third field, in ms."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Paid(ProcessJoinFunction):
    """Emits one record for each pair."""

    def process_element(self, left, right, ctx):
        yield left[0], left[1], right[1]


def define(env):
    """Return the stream of paid orders: the number, the item, the means of payment."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())

    def by_number(events):
        stream = env.from_collection(events, EVENT).assign_timestamps_and_watermarks(strategy)
        return stream.key_by(lambda event: event[0], Types.INT())

    orders, payments = by_number(ORDERS), by_number(PAYMENTS)
    joined = orders.interval_join(payments).between(Time.milliseconds(0), Time.hours(1))
    return joined.process(Paid(), PAID)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("interval join")
