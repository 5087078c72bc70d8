"""The groups of a batch are numbered by their first records, whatever columns make the key."""

import itertools

import pyarrow as pa
import pytest
from penstock.columns import groups
from penstock.columns.groups import numbered

WIDE = [-(2**63), 2**63 - 1, 0, 1]
COLUMNS = [
    pa.array([3, -1, 3, 0, -1, 7], pa.int64()),
    pa.array([1, 1, 2, 2, 1, 1], pa.int8()),
    pa.array([*WIDE, *WIDE[:2]], pa.int64()),
    pa.array([5, None, 5, None, None, 5], pa.int32()),
    pa.array(["a", "b", "a", "c", "b", None]),
    pa.array([True, False, True, True, False, None]),
]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_groups_are_numbered_in_the_order_of_their_first_records(count):
    for columns in itertools.permutations(COLUMNS, count):
        numbers = {}
        keys = zip(*(column.to_pylist() for column in columns), strict=True)
        expected = [numbers.setdefault(key, len(numbers)) for key in keys]
        found = numbered(columns)
        assert found.codes.tolist() == expected
        assert found.count == len(numbers)


def test_an_empty_batch_has_no_groups():
    empty = pa.array([], pa.int64())
    assert numbered([empty, empty]).count == 0


def test_integers_of_several_columns_are_numbered_by_one_dictionary(monkeypatch):
    encoded = []
    encode = groups._codes
    monkeypatch.setattr(groups, "_codes", lambda column: encoded.append(column) or encode(column))
    assert numbered(COLUMNS[:2]).count == 5
    assert len(encoded) == 1
