"""The arithmetic of debloating in the pure runtime (internals M6); the native one has its own."""

import pytest
from penstock.network.pure.memory.debloat import (
    BufferDebloater,
    DebloatOptions,
    ThroughputCalculator,
)


def debloater(target_ms, minimum, maximum, *, start=None, samples=1):
    return BufferDebloater(
        DebloatOptions(target_ms, minimum, maximum, start or maximum, 25, samples)
    )


@pytest.mark.parametrize(
    ("target_ms", "minimum", "maximum", "buffers", "pace", "expected"),
    [
        (1000, 50, 2400, 0, 1200, 1200),
        (1200, 50, 1100, 16, 3333, 250),
        (1200, 250, 1100, 16, 3333, 250),
        (1200, 50, 1100, 16, 0, 50),
        (7, 50, 1100, 16, 3333, 50),
        (1200, 50, 248, 16, 3333, None),
        (1200, 50, 250, 16, 3333, None),
    ],
)
def test_worked_examples(target_ms, minimum, maximum, buffers, pace, expected):
    """Target, bounds, buffers in use and bytes per second determine the announced size."""
    assert debloater(target_ms, minimum, maximum).recalculate(pace, buffers) == expected


def test_share_of_the_target():
    """A gate with a share of the target time announces less."""
    made = debloater(1000, 50, 2400)
    assert made.recalculate(8000, 4, 0.25) == 500
    assert made.estimated_drain_ms == 250


def test_small_changes():
    """A change below the threshold is not announced, unless it reaches a bound."""
    made = debloater(1000, 50, 2400)
    paces = (1000, 1249, 751, 1250, 50)
    assert [made.recalculate(pace, 1) for pace in paces] == [1000, None, None, 1250, 50]
    assert made.estimated_drain_ms == 1000


def test_average():
    """The average moves by its weight and grows by at most a factor of two."""
    made = debloater(1000, 10, 1000, start=200, samples=3)
    sizes = []
    for pace in (111, 107, 10_000, 0):
        made.recalculate(pace, 1)
        sizes.append(round(made._average))
    assert sizes == [156, 131, 197, 98]


def test_throughput():
    """Idle time does not count; without any elapsed time the previous value is returned again."""
    throughput = ThroughputCalculator()
    throughput.resume(0)
    throughput.count(6666)
    throughput.pause(1)
    throughput.resume(101)
    assert throughput.calculate(102) == 3_333_000
    throughput.count(5)
    assert throughput.calculate(102) == 3_333_000
    throughput.count(10)
    assert throughput.calculate(112) == 1000
