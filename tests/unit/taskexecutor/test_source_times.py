"""The lag of a source after each of its steps."""

from types import SimpleNamespace

import pytest
from penstock.taskexecutor.compiled import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
)
from penstock.taskexecutor.sources.source_times import SourceTimes

MS = 1_000_000


class Outputs:
    """The outputs of a reader."""

    def __init__(self):
        self.last = None
        self.watermark = MIN_TIMESTAMP

    def take_last(self):
        last, self.last = self.last, None
        return last


class World:
    """A clock that starts 5 s after midnight, and a source whose steps the test dictates."""

    def __init__(self, **source):
        self.now_ms = 0
        self.metrics = {}
        self.source = SimpleNamespace(**source)
        self.times = SourceTimes(
            self.metrics, self.source, lambda: self.now_ms * MS, lambda: (5000 + self.now_ms) * MS
        )

    def step(self, status, last=None):
        if last is not None:
            self.source.outputs.last = last
        self.times.step(status, self.now_ms * MS)

    def told(self):
        return {name: gauge() for name, gauge in self.metrics.items()}


@pytest.fixture
def world():
    return World(outputs=Outputs(), reader=SimpleNamespace())


def test_a_source_without_times_tells_its_idleness_alone():
    world = World()
    assert world.told() == {"sourceIdleTime": 0}
    world.step(MORE_AVAILABLE)
    world.now_ms = 10
    assert world.told() == {"sourceIdleTime": 0}
    world.step(NOTHING_AVAILABLE)
    world.now_ms = 25
    world.step(NOTHING_AVAILABLE)
    assert world.told() == {"sourceIdleTime": 15}
    world.step(MORE_AVAILABLE)
    assert world.told() == {"sourceIdleTime": 0}


def test_idleness_begins_with_the_last_record(world):
    """Also if a step emits and reports that nothing more is available."""
    world.step(NOTHING_AVAILABLE)
    world.now_ms = 100
    world.step(NOTHING_AVAILABLE, last=MIN_TIMESTAMP)
    world.now_ms = 130
    assert world.told() == {"sourceIdleTime": 30}


def test_the_lag_is_that_of_the_moment_of_emission(world):
    world.now_ms = 200
    world.step(MORE_AVAILABLE, last=5150)
    world.now_ms = 900
    world.step(NOTHING_AVAILABLE)
    assert world.told() == {"sourceIdleTime": 0, "currentEmitEventTimeLag": 50}


def test_a_reader_that_says_when_it_fetched_tells_that_lag(world):
    world.source.reader.fetched_ms = 5170
    world.now_ms = 200
    world.step(MORE_AVAILABLE, last=5150)
    told = world.told()
    assert (told["currentEmitEventTimeLag"], told["currentFetchEventTimeLag"]) == (50, 20)


@pytest.mark.parametrize("kind", ["outputs", "watermarks"])
def test_the_watermark_lags_behind_the_clock(kind):
    outputs = Outputs()
    source = {"outputs": outputs} if kind == "outputs" else {}
    world = World(**source, watermarks=SimpleNamespace(emitter=outputs))
    world.step(MORE_AVAILABLE)
    assert "watermarkLag" not in world.metrics
    outputs.watermark = 4000
    world.step(MORE_AVAILABLE)
    world.now_ms = 70
    assert world.told()["watermarkLag"] == 1070
    outputs.watermark = MAX_TIMESTAMP
    assert world.told()["watermarkLag"] == 0
