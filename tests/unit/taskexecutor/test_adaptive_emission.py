"""The sizes of the batches that a source emits at a time.

Goal: the fixed cost of kernels on a busy machine does not shrink batches down to single records,
while a function that is slow for each record still gets few of them.  Method: a clock that the
test advances.
"""

import pytest
from penstock.taskexecutor.sources import adaptive_emission
from penstock.taskexecutor.sources.adaptive_emission import AdaptiveBatches, batch_limit

LIMIT = batch_limit(1024)


@pytest.fixture
def sizes_of(monkeypatch):
    """Return the sizes of batches that cost a fixed time and a time for each record, in ns."""

    def found(fixed_ns, record_ns, steps=40):
        now_ns = [0]
        monkeypatch.setattr(adaptive_emission, "monotonic_ns", lambda: now_ns[0])
        sizes = []

        def some(limit):
            now_ns[0] += fixed_ns + limit * record_ns
            sizes.append(limit)
            return limit

        emitted = AdaptiveBatches()
        for _ in range(steps):
            emitted.emit(LIMIT, some)
        return sizes

    return found


def test_a_fixed_cost_does_not_shrink_batches(sizes_of):
    assert min(sizes_of(fixed_ns=8_000_000, record_ns=100)[-20:]) >= 4096


def test_fast_batches_grow_up_to_the_limit(sizes_of):
    assert max(sizes_of(fixed_ns=100_000, record_ns=20)) == LIMIT


def test_records_that_are_slow_come_a_few_at_a_time(sizes_of):
    assert max(sizes_of(fixed_ns=100_000, record_ns=5_000_000)[-20:]) <= 32
