"""An attempt's memory is free when the next one starts, without a garbage collection."""

import gc
import weakref

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

ALIVE = weakref.WeakSet()
NUM_FAILURES = 3


class Kept:
    """A value of the job's own, which reports whether it still exists."""

    def __init__(self):
        ALIVE.add(self)

    def __reduce__(self):
        return Kept, ()


class KeepsAndFails(KeyedProcessFunction):
    def open(self, runtime_context):
        self.alive = len(ALIVE)
        self.attempt = runtime_context.get_attempt_number()
        pickled = Types.PICKLED_BYTE_ARRAY()
        self.value = runtime_context.get_state(ValueStateDescriptor("value", pickled))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", pickled))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), pickled))

    def process_element(self, value, ctx):
        self.value.update(Kept())
        self.list.add(Kept())
        self.map.put(value, Kept())
        ctx.timer_service().register_processing_time_timer(1 << 50)
        if value == 50 and self.attempt < NUM_FAILURES:
            message = f"with {len(ALIVE)} values"
            raise ValueError(message)
        if value == 99:
            yield self.alive


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def environment(**options):
    restarts = {
        "execution.target": "in-process",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": str(NUM_FAILURES),
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(restarts | options)
    )
    env.set_parallelism(1)
    return env


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_of_a_failed_attempt_is_gone_when_the_next_one_opens(backend):
    env = environment(**{"state.backend.type": backend})
    stream = env.from_collection(list(range(100)), Types.INT())
    kept = stream.key_by(lambda value: value % 7).process(KeepsAndFails(), Types.INT())
    assert list(kept.execute_and_collect()) == [0]


def test_buffers_of_a_failed_attempt_go_back_to_their_pool(capfd):
    env = environment(**{"execution.target": "local"})
    env.set_parallelism(2)
    stream = env.from_collection(list(range(100)), Types.INT())
    kept = stream.key_by(lambda value: value % 7).process(KeepsAndFails(), Types.INT())
    list(kept.execute_and_collect())
    assert "remain" not in capfd.readouterr().err
