"""Sessions of visitors: clicks with less than 30 minutes between them belong together.

    python examples/clickstream_sessions.py

Prints for each session the visitor, the first click, the last one and how many there were.
"""

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.window import EventTimeSessionWindows

CLICK = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
SESSION = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])
MINUTE_MS = 60_000

CLICKS = [
    ("ann", "/", 0),
    ("bob", "/", 1 * MINUTE_MS),
    ("ann", "/tea", 5 * MINUTE_MS),
    ("ann", "/cart", 3 * MINUTE_MS),  # late, within what the watermarks allow
    ("bob", "/cake", 20 * MINUTE_MS),
    ("ann", "/", 50 * MINUTE_MS),
]


class ClickTime(TimestampAssigner):
    """The time of a click is its third field, in ms."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Summary(ProcessWindowFunction):
    """Emits one record for each session."""

    def process(self, key, context, elements):
        times = [time_ms for _, _, time_ms in elements]
        yield key, min(times), max(times), len(times)


def define(env):
    """Return the stream of sessions."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_minutes(5)
    ).with_timestamp_assigner(ClickTime())
    return (
        env.from_collection(CLICKS, CLICK)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda click: click[0], Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.minutes(30)))
        .process(Summary(), SESSION)
    )


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("clickstream sessions")
