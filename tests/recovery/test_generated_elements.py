"""A DataGeneratorSource whose workers are killed emits each record once (M63)."""

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.data_generator import (
    DataGeneratorSource,
    RateLimiterStrategy,
)

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

ELEMENTS = 3000
MOMENTS = [0, 701, 1402, 2999]


class FailingAt(MapFunction):
    def __init__(self, fate):
        self.fate = fate

    def map(self, value):
        if value in MOMENTS:
            self.fate.strike(str(value))
        return value


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_every_record_once_though_workers_are_killed(tmp_path, monkeypatch, runtime):
    """The rate spreads the source over many checkpoints, however fast it is."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", map(str, MOMENTS))
    env = environment({})
    source = DataGeneratorSource(
        lambda number: number, ELEMENTS, RateLimiterStrategy.per_checkpoint(300), Types.LONG()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    failing = numbers.map(FailingAt(Fate(tmp_path / "fates", "kill")), Types.LONG())
    with failing.execute_and_collect() as results:
        assert sorted(results) == list(range(ELEMENTS))
    assert not list((tmp_path / "fates").iterdir())
