"""Programs that read a state with a time to live: at once, after a short pause and a long one."""

from __future__ import annotations

import time
from typing import Any


def expiring(f: Any, configure: Any) -> Any:
    builder = f.StateTtlConfig.new_builder(f.Time.milliseconds(700))
    return configure(builder).build()


def lived(f: Any, ttl: Any, kind: str) -> Any:
    """Return the remaining state: at once, after a short pause, and after a long one."""
    env = f.paced_env()

    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            t = f.Types.INT()
            descriptor = {
                "value": lambda: f.ValueStateDescriptor("s", t),
                "list": lambda: f.ListStateDescriptor("s", t),
                "map": lambda: f.MapStateDescriptor("s", t, t),
            }[kind]()
            descriptor.enable_time_to_live(ttl)
            get = {
                "value": runtime_context.get_state,
                "list": runtime_context.get_list_state,
                "map": runtime_context.get_map_state,
            }[kind]
            self.state = get(descriptor)

        def process_element(self, value, ctx):
            pause, write = divmod(value, 10)
            time.sleep(pause / 10)
            if kind == "value":
                yield [self.state.value()]
            elif kind == "list":
                yield list(self.state.get())
            else:
                yield sorted(self.state.items())
            if write and kind == "value":
                self.state.update(write)
            elif write and kind == "list":
                self.state.add(write)
            elif write:
                self.state.put(write, write)

    stream = env.from_collection([1, 0, 110, 0], f.Types.INT())
    return f.collect(stream.key_by(lambda v: 0).process(Use()))
