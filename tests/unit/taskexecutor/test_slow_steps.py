"""Elements of a source that become slow at once end its step: timers and barriers wait for it."""

import importlib

import pytest

STEP = 1024


class Clock:
    """Goes on by as much as each element costs."""

    def __init__(self):
        self.now_ns, self.cost_ns = 0, 0

    def __call__(self):
        return self.now_ns


@pytest.fixture(params=["penstock._native", "penstock.taskexecutor.compiled"])
def runtime(request, monkeypatch):
    """The modules of a runtime, whose sources look at a clock of the test's."""
    sources = importlib.import_module(f"{request.param}.source_operators")
    loop = importlib.import_module(f"{request.param}.operator_loop")
    clock = Clock()
    monkeypatch.setattr(sources, "monotonic_ns", clock)

    class Costly(loop.Output):
        def __init__(self):
            self.taken = []

        def collect(self, value, timestamp):
            self.taken.append(value)
            clock.now_ns += clock.cost_ns

        def collect_all(self, values, timestamp):
            for value in values:
                self.collect(value, timestamp)

    return sources, Costly(), clock


SOURCES = {
    "sequence": lambda sources: sources.NumberSequenceSource(0, 99_999),
    "iterator": lambda sources: sources.IteratorSource(iter(range(100_000))),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_step_ends_when_its_elements_become_slow(name, runtime):
    sources, output, clock = runtime
    source = SOURCES[name](sources)
    source.output = output
    clock.cost_ns = 1000
    steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, STEP, STEP]
    for step in steps:
        assert source.emit_next(step) == sources.MORE_AVAILABLE
    assert output.taken == list(range(sum(steps)))
    clock.cost_ns = 100_000_000
    assert source.emit_next(STEP) == sources.MORE_AVAILABLE
    assert len(output.taken) - sum(steps) <= 30
    before = len(output.taken)
    assert source.emit_next(STEP) == sources.MORE_AVAILABLE
    assert len(output.taken) - before <= 8
    assert output.taken == list(range(len(output.taken)))


@pytest.mark.parametrize("name", SOURCES)
def test_all_is_emitted_once(name, runtime):
    sources, output, clock = runtime
    source = SOURCES[name](sources)
    source.output = output
    clock.cost_ns = 50
    while source.emit_next(STEP) == sources.MORE_AVAILABLE:
        pass
    assert output.taken == list(range(100_000))
