"""The two best-selling items of each hour.

    python examples/top_n.py

Sums by item and hour are computed first, in parallel; a second step by hour sorts the few sums.
"""

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ListStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

N = 2
HOUR_MS = 3_600_000
SALE = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
ITEM_SUM = Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()])

SALES = [
    ("tea", 3, 0),
    ("cake", 5, 1),
    ("jam", 1, 2),
    ("tea", 4, 3),
    ("jam", 9, HOUR_MS),
    ("cake", 2, HOUR_MS + 1),
    ("tea", 1, HOUR_MS + 2),
]


class SaleTime(TimestampAssigner):
    """The time of a sale is its third field, in ms."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Sum(AggregateFunction):
    """Adds the numbers of pieces."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WithHour(ProcessWindowFunction):
    """Adds the item and the hour to a sum."""

    def process(self, key, context, elements):
        for total in elements:
            yield context.window().start, key, total


class TopN(KeyedProcessFunction):
    """Stores the sums of an hour until all of them have arrived."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_list_state(ListStateDescriptor("sums", ITEM_SUM))

    def process_element(self, value, ctx):
        self.sums.add(value)
        # After the end of the hour: no further sum of it can arrive.
        ctx.timer_service().register_event_time_timer(value[0] + HOUR_MS)

    def on_timer(self, timestamp, ctx):
        best = sorted(self.sums, key=lambda entry: -entry[2])[:N]
        self.sums.clear()
        yield from best


def define(env):
    """Return the stream of the best items: the start of the hour in ms, the item, the sum."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SaleTime())
    return (
        env.from_collection(SALES, SALE)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda sale: sale[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .aggregate(Sum(), WithHour(), Types.INT(), ITEM_SUM)
        .key_by(lambda entry: entry[0], Types.LONG())
        .process(TopN(), ITEM_SUM)
    )


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("top N")
