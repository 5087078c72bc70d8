"""Fraud detection: a small payment followed by a large one of the same account within a minute.

    python examples/fraud_detection.py

Flink's introduction to state and timers: state holds the time of each account's small payment, and
a timer removes it after a minute.
"""

from penstock.common import Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

PAYMENT = Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.LONG()])
SMALL, LARGE = 1.0, 500.0
MINUTE_MS = 60_000

PAYMENTS = [
    (1, 0.5, 0),
    (1, 900.0, 10_000),  # fraud
    (2, 0.2, 20_000),
    (2, 30.0, 25_000),  # neither small nor large: the previous one no longer counts
    (2, 700.0, 30_000),
    (3, 0.9, 40_000),
    (3, 800.0, 40_000 + 2 * MINUTE_MS),  # too late
]


class PaymentTime(TimestampAssigner):
    """The time of a payment is its third field, in ms."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class FraudDetector(KeyedProcessFunction):
    """Emits an alert with the account and the large payment."""

    def open(self, runtime_context):
        self.small_at = runtime_context.get_state(ValueStateDescriptor("small at", Types.LONG()))

    def process_element(self, value, ctx):
        account, amount, time_ms = value
        small_at = self.small_at.value()
        if small_at is not None:
            # Timers follow the watermark, which may lag behind.
            if amount > LARGE and time_ms <= small_at + MINUTE_MS:
                yield f"account {account}: {amount} after a small payment"
            ctx.timer_service().delete_event_time_timer(small_at + MINUTE_MS)
            self.small_at.clear()
        if amount < SMALL:
            self.small_at.update(time_ms)
            ctx.timer_service().register_event_time_timer(time_ms + MINUTE_MS)

    def on_timer(self, timestamp, ctx):
        self.small_at.clear()
        return ()


def define(env):
    """Return the stream of alerts."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PaymentTime())
    return (
        env.from_collection(PAYMENTS, PAYMENT)
        .assign_timestamps_and_watermarks(strategy)
        # One subtask, as the source has: payments keep their order.
        .set_parallelism(1)
        .key_by(lambda payment: payment[0], Types.INT())
        .process(FraudDetector(), Types.STRING())
    )


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("fraud detection")
