"""Mean temperatures of sensors by minute, from readings that arrive late.

    python examples/iot_late_data.py

Watermarks wait for 5 s, windows accept corrections for another 20 s, and later readings go to a
side output, so that no reading is lost silently.
"""

from penstock.common import Row, Time, Types
from penstock.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.expressions import field

READING = Types.ROW_NAMED(["sensor", "celsius", "ts"], [Types.INT(), Types.DOUBLE(), Types.LONG()])
RESULT = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG(), Types.INT()])
LATE = OutputTag("late", READING)
START_MS = 1_767_225_600_000  # 2026-01-01
#: How late some readings of the first minute arrive: one in time, two as corrections, one too late.
DELAYS_MS = {20: 2_000, 100: 20_000, 101: 25_000, 50: 90_000}


def readings():
    """Return three minutes of readings of two sensors in the order of their arrival."""
    arrivals = []
    for number in range(360):
        ts = START_MS + number * 500
        delay_ms = DELAYS_MS.get(number, 0)
        reading = Row(sensor=number % 2, celsius=20.0 + number % 2, ts=ts)
        arrivals.append((ts + delay_ms, reading))
    return [reading for _, reading in sorted(arrivals, key=lambda arrival: arrival[0])]


class Sensors(SourceFunction):
    """Emits the readings, each with a watermark 5 s behind the latest time."""

    def run(self, ctx):
        latest = START_MS
        for reading in readings():
            latest = max(latest, reading.ts)
            ctx.collect_with_timestamp(reading, reading.ts)
            ctx.emit_watermark(latest - 5000)

    def cancel(self):
        """Do nothing: the source does not wait."""


class Mean(AggregateFunction):
    """The number of readings and their sum."""

    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value.celsius

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Report(ProcessWindowFunction):
    """Emits the mean of a window, again for each correction."""

    def process(self, key, context, elements):
        [(count, total)] = elements
        yield f"mean {total / count:.1f}", key, context.window().start, count


def define(env):
    """Return the stream of means and of readings that came too late."""
    means = (
        env.add_source(Sensors(), "sensors", READING)
        .key_by(field("sensor"))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .allowed_lateness(20_000)
        .side_output_late_data(LATE)
        .aggregate(Mean(), Report(), output_type=RESULT)
    )
    late = means.get_side_output(LATE).map(
        lambda reading: ("too late", reading.sensor, reading.ts, 1), RESULT
    )
    return means.union(late)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("sensors")
