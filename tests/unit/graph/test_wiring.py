"""POINTWISE and ALL_TO_ALL wiring (internals M41, M73)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.graph.wiring import (
    DistributionPattern,
    consumed_partitions,
    consumers_of,
    num_subpartitions,
)

POINTWISE = DistributionPattern.POINTWISE
ALL_TO_ALL = DistributionPattern.ALL_TO_ALL


def partitions(producers, consumers):
    return [
        [c.partition for c in consumed_partitions(POINTWISE, producers, consumers, i)]
        for i in range(consumers)
    ]


@pytest.mark.parametrize(
    ("producers", "consumers", "expected"),
    [
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1], [2, 3, 4]]),
        (7, 3, [[0, 1], [2, 3], [4, 5, 6]]),
        (3, 3, [[0], [1], [2]]),
        (3, 1, [[0, 1, 2]]),
        (3, 2, [[0], [1, 2]]),
        (6, 4, [[0], [1, 2], [3], [4, 5]]),
    ],
)
def test_pointwise_fan_in_golden(producers, consumers, expected):
    assert partitions(producers, consumers) == expected


@pytest.mark.parametrize(
    ("producers", "consumers", "expected"),
    [
        (2, 5, [[0, 1, 2], [3, 4]]),
        (3, 7, [[0, 1, 2], [3, 4], [5, 6]]),
        (2, 4, [[0, 1], [2, 3]]),
    ],
)
def test_pointwise_fan_out_golden(producers, consumers, expected):
    fed = [list(consumers_of(POINTWISE, producers, consumers, p)) for p in range(producers)]
    assert fed == expected


def test_all_to_all_reads_its_own_index_of_every_partition():
    assert consumed_partitions(ALL_TO_ALL, 3, 2, 1) == [(0, 1), (1, 1), (2, 1)]
    assert num_subpartitions(ALL_TO_ALL, 3, 2, 0) == 2


@given(st.sampled_from(DistributionPattern), st.integers(1, 40), st.integers(1, 40))
def test_every_subpartition_has_exactly_one_reader(pattern, producers, consumers):
    """Both views agree, nothing is read twice or left unread, and every reader has input."""
    read = [
        channel
        for c in range(consumers)
        for channel in consumed_partitions(pattern, producers, consumers, c)
    ]
    assert len(read) == len(set(read))
    written = {
        (p, s)
        for p in range(producers)
        for s in range(num_subpartitions(pattern, producers, consumers, p))
    }
    assert set(read) == written
    for c in range(consumers):
        channels = consumed_partitions(pattern, producers, consumers, c)
        assert channels
        for channel in channels:
            assert c in consumers_of(pattern, producers, consumers, channel.partition)


@given(st.integers(1, 40), st.integers(1, 40))
def test_pointwise_is_even(producers, consumers):
    """Counts differ by at most one (PointwisePatternTest)."""
    counts = [
        len(consumed_partitions(POINTWISE, producers, consumers, c)) for c in range(consumers)
    ]
    feeds = [num_subpartitions(POINTWISE, producers, consumers, p) for p in range(producers)]
    assert max(counts) - min(counts) <= 1
    assert max(feeds) - min(feeds) <= 1


@pytest.mark.parametrize(("p", "c", "i"), [(0, 1, 0), (1, 0, 0), (2, 2, 2), (2, 2, -1)])
def test_impossible_wiring_is_refused(p, c, i):
    with pytest.raises(ValueError):
        consumed_partitions(POINTWISE, p, c, i)
