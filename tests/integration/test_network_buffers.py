"""Jobs run with the computed number of network buffers, and fail with a reason with too few."""

import pytest
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InsufficientBuffersError

SLOTS = 3


def shuffled(**options):
    """Run a job of three exchanges in one TaskExecutor; return the sum of its numbers."""
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(
            {
                "execution.target": "in-process",
                "taskmanager.numberOfTaskSlots": str(SLOTS),
                "restart-strategy.type": "none",
                **options,
            }
        )
    )
    env.set_parallelism(SLOTS)
    stream = env.from_collection(list(range(1000)))
    for _ in range(2):
        stream = stream.rebalance().map(lambda number: number + 1)
    with stream.execute_and_collect() as results:
        return sum(results)


def test_the_computed_sum_suffices(monkeypatch, caplog):
    monkeypatch.setattr("penstock.common.options.network.LEAST_COMPUTED_SEGMENTS", 1)
    with caplog.at_level("INFO", "penstock.taskexecutor.worker"):
        assert shuffled() == sum(range(2, 1002))
    # Three exchanges: 1 → 3, 3 → 3 and 3 → 1.
    partitions, channels = (3 * 2 + 8) * 2 + (1 * 2 + 8), (1 + 3 + 3) * 2
    each = f"{partitions} of partitions, {channels} of channels from other TaskExecutors, 24 of"
    total = partitions + channels + 24
    assert f"pool of {SLOTS * total} network buffers (computed)" in caplog.text
    assert f"each of {SLOTS} slots can use {total} network buffers: {each}" in caplog.text


def test_a_number_that_is_too_small_is_rejected_with_the_sums():
    with pytest.raises(InsufficientBuffersError) as raised:
        shuffled(**{"taskmanager.memory.network.segments": "6"})
    text = str(raised.value)
    assert "other tasks have " in text
    assert "has 6 for the job" in text
    assert "set it to at least 2048, or lower the parallelism" in text
