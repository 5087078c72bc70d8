"""A program that does not read its collected results blocks checkpoints; a warning says so."""

import itertools
import logging
import threading

import pytest
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.rpc import collect_client
from support.patience import PATIENCE_S


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.said = []
        self.something = threading.Event()

    def emit(self, record):
        self.said.append(record.getMessage())
        self.something.set()


@pytest.fixture
def heard():
    handler, logger = Heard(), logging.getLogger("penstock.taskexecutor.sinks.collect")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.mark.parametrize("encrypts", [False, True])
@pytest.mark.parametrize("mode", ["EXACTLY_ONCE", "AT_LEAST_ONCE"])
def test_a_sink_whose_results_nobody_reads_says_so_once(monkeypatch, heard, mode, encrypts):
    monkeypatch.setattr(collect_client, "UNREAD_S", 0.05)
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("execution.checkpointing.mode", mode)
    configuration.set_boolean("security.ssl.internal.enabled", encrypts)
    # Results that are sent twice or not at all are an error, not another attempt.
    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    # Endless: the connection and the driver's queue are full at some time.
    text, numbers = "x" * 4096, NumberSequenceSource(1, 2**60)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").map(
        lambda number: (number, text)
    )
    with stream.execute_and_collect() as results:
        assert heard.something.wait(PATIENCE_S)
        found = itertools.islice(results, 1000)
        assert [number for number, _ in found] == list(range(1, 1001))
    assert len(heard.said) == 1
    assert "execute_and_collect" in heard.said[0]
    assert "has waited 0.05 s" in heard.said[0]
