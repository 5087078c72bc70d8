"""Key groups: the golden vectors (internals M63, M73) and the identities between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.graph import key_groups as kg

VECTORS = {
    0: (593689054, 94),
    1: (68075478, 86),
    2: (1085422463, 127),
    3: (847579505, 113),
    42: (1134849565, 29),
    -1: (1982413648, 80),
    2147483647: (1653689534, 62),
    -2147483648: (1718298732, 108),
}


@pytest.mark.parametrize("code", VECTORS)
def test_murmur_golden(code):
    mixed, group = VECTORS[code]
    assert kg.murmur_hash(code) == mixed
    assert kg.key_group(code, 128) == group


@pytest.mark.parametrize(
    ("key_hash", "group", "operator"),
    [
        (99162322, 35, 0),
        (97520992, 98, 2),
        (101943363, 54, 1),
        (97, 81, 1),
        (98, 22, 0),
        (0, 94, 2),
    ],
)
def test_string_keys_golden(key_hash, group, operator):
    """Compare "hello", "flink", "key-1", "a", "b" and "" with their canonical hashes."""
    assert kg.key_group(key_hash, 128) == group
    assert kg.operator_index(128, 3, group) == operator


def test_ranges_golden():
    assert [kg.key_group_range(128, 3, i) for i in range(3)] == [(0, 42), (43, 85), (86, 127)]
    assert [kg.key_group_range(10, 4, i) for i in range(4)] == [(0, 2), (3, 4), (5, 7), (8, 9)]


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (171, 256), (172, 512), (21845, 32768), (32768, 32768)],
)
def test_default_max_parallelism_golden(parallelism, expected):
    assert kg.default_max_parallelism(parallelism) == expected


@given(st.integers(1, 32768), st.data())
def test_ranges_partition_all_groups(max_parallelism, data):
    """Ranges are adjacent, cover all groups, and agree with operator_index."""
    parallelism = data.draw(st.integers(1, min(max_parallelism, 64)))
    ranges = [kg.key_group_range(max_parallelism, parallelism, i) for i in range(parallelism)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == max_parallelism - 1
    for i, (start, end) in enumerate(ranges):
        assert start <= end
        assert kg.operator_index(max_parallelism, parallelism, start) == i
        assert kg.operator_index(max_parallelism, parallelism, end) == i
        if i:
            assert start == ranges[i - 1][1] + 1


@given(st.integers())
def test_murmur_is_an_int32_that_is_not_negative(code):
    assert 0 <= kg.murmur_hash(code) < 1 << 31
    assert kg.murmur_hash(code) == kg.murmur_hash(code & 0xFFFFFFFF)


@pytest.mark.parametrize(("maximum", "parallelism", "subtask"), [(4, 5, 0), (4, 0, 0), (4, 2, 2)])
def test_impossible_ranges_are_refused(maximum, parallelism, subtask):
    with pytest.raises(ValueError):
        kg.key_group_range(maximum, parallelism, subtask)
