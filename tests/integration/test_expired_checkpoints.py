"""An expired checkpoint reports the operator that held up its barriers."""

import threading

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.functions import MapFunction
from penstock.errors import CheckpointFailedJobError
from support.environments import in_process

GO_ON = threading.Event()


class Slow(MapFunction):
    def map(self, value):
        while not GO_ON.wait(0.05):  # a cancelled task is interrupted in between
            pass
        return value


def test_the_operator_that_held_up_the_barriers_is_named():
    env = in_process(
        1,
        **{
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.timeout": "3 s",
            "restart-strategy.type": "none",
        },
    )
    numbers = env.from_source(
        NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers"
    )
    slow = numbers.rebalance().map(Slow(), Types.LONG()).name("enrich")
    slow.rebalance().map(str, Types.STRING()).name("behind").print()
    try:
        with pytest.raises(CheckpointFailedJobError) as raised:
            env.execute()
    finally:
        GO_ON.set()
    assert "barriers have not arrived at enrich (1/1), behind" in str(raised.value)
    assert "held up in operator 'enrich'" in str(raised.value)
