"""Orders that are not paid within a quarter of an hour, and the delay of those that are.

    python examples/unpaid_orders.py

A pattern joins each order with its payment; orders whose time ends without one go to a side output.
"""

from penstock.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.expressions import field

MINUTE_MS = 60_000
EVENT = Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG()])
RESULT = Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG()])
UNPAID = OutputTag("unpaid", RESULT)

EVENTS = [
    (1, "order", 0),
    (2, "order", 1 * MINUTE_MS),
    (1, "pay", 4 * MINUTE_MS),
    (3, "order", 5 * MINUTE_MS),
    (2, "pay", 16 * MINUTE_MS),  # too late
    (3, "pay", 18 * MINUTE_MS),
]

PAID_IN_TIME = (
    Pattern.begin("order")
    .where(field(1) == "order")
    .followed_by("pay")
    .where(field(1) == "pay")
    .within(Duration.of_minutes(15))
)


class Delays(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Emits the number of an order, its outcome, and its delay in ms."""

    def process_match(self, match, ctx):
        order, payment = match["order"][0], match["pay"][0]
        yield order[0], "paid", payment[2] - order[2]

    def process_timed_out_match(self, match, ctx):
        order = match["order"][0]
        yield UNPAID, (order[0], "unpaid", ctx.timestamp() - order[2])


def define(env):
    """Return the stream of all orders: the number, "paid" or "unpaid", and the delay."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field(2))
    events = env.from_collection(EVENTS, EVENT).assign_timestamps_and_watermarks(times)
    orders = events.key_by(lambda event: event[0], Types.INT())
    paid = CEP.pattern(orders, PAID_IN_TIME).process(Delays(), RESULT)
    return paid.union(paid.get_side_output(UNPAID))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("unpaid orders")
