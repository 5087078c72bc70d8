"""Each event once, though its sender repeats it: ids are remembered for a day.

    python examples/deduplication.py

The time to live keeps the state from growing for ever.
"""

from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])

EVENTS = [
    ("e1", "created"),
    ("e2", "created"),
    ("e1", "created"),
    ("e3", "paid"),
    ("e2", "created"),
]


class FirstOnly(KeyedProcessFunction):
    """Emits an event if its id is new."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(Time.days(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        if not self.seen.value():
            self.seen.update(True)
            yield value


def define(env):
    """Return the stream without repetitions."""
    events = env.from_collection(EVENTS, EVENT)
    return events.key_by(lambda event: event[0], Types.STRING()).process(FirstOnly(), EVENT)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("deduplication")
