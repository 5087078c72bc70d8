"""Keys in columns have the same hashes and channels as the same keys as objects."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.key_columns import KeyColumns, key_hashes
from penstock.columns.partition import Partition, key_groups, partition
from penstock.common.typeinfo import Types
from penstock.graph.key_groups import key_group, operator_index
from penstock.network.pure.channel_selector import make_selector
from penstock.serialization.key_types import key_type_of
from penstock.serialization.pure.key_hash import key_hash

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, float("nan"), float("-inf")])
SINGLES = st.floats(width=32)

FORMS = [
    (Types.LONG(), LONGS, [None, "LONG"]),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1), [None, "INT", "LONG"]),
    (Types.STRING(), TEXTS, [None, "STRING"]),
    (Types.DOUBLE(), FLOATS, [None, "DOUBLE"]),
    (Types.FLOAT(), SINGLES, [None, "FLOAT", "DOUBLE"]),
    (Types.BOOLEAN(), st.booleans(), [None, "BOOLEAN"]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=9), [None]),
    (Types.SQL_DATE(), st.dates(), [None]),
]


@pytest.fixture(params=["native", "pure"], autouse=True)
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)
    return request.param


def batch_of(declared, *columns):
    schema = batch_schema(declared)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return ColumnBatch(pa.RecordBatch.from_arrays(arrays, schema=schema), declared)


@pytest.mark.parametrize(
    ("declared", "values", "kind"),
    [(declared, values, kind) for declared, values, kinds in FORMS for kind in kinds],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else None,
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_single_keys(declared, values, kind, data):
    keys = data.draw(st.lists(st.none() | values, max_size=12))
    made = batch_of(declared, keys).slice(data.draw(st.integers(0, len(keys))))
    expected = [key_hash(kind)(key) for key in made.rows()]
    assert list(key_hashes(made, KeyColumns((0,), kind=kind))) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | LONGS,
            st.none() | TEXTS,
            st.none() | FLOATS,
            st.none() | st.booleans(),
            st.none() | SINGLES,
        ),
        max_size=12,
    )
)
def test_tuples_of_several_columns(rows):
    declared = Types.TUPLE(
        [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.FLOAT()]
    )
    made = batch_of(declared, *(zip(*rows, strict=True) if rows else [[]] * 5))
    expected = [key_hash(None)((row[2], row[0], row[1], row[3], row[4])) for row in made.rows()]
    assert list(key_hashes(made, KeyColumns((2, 0, 1, 3, 4), is_tuple=True))) == expected


PAIRS = Types.TUPLE([Types.LONG(), Types.STRING()])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(LONGS, TEXTS), max_size=40), st.integers(1, 7))
def test_each_record_goes_to_the_channel_that_it_has_as_an_object(rows, channels):
    made = batch_of(PAIRS, *(zip(*rows, strict=True) if rows else [[], []]))
    selector = make_selector(
        "KEY_GROUP", channels, key_selector=lambda row: row[1], max_parallelism=128
    )
    expected = {}
    for row in rows:
        expected.setdefault(selector.select(row), []).append(row)
    found = partition(made, KeyColumns((1,)), 128, channels)
    assert {channel: part.rows() for channel, part in found} == expected
    assert [channel for channel, _ in found] == sorted(expected)


def test_timestamps_go_with_their_records():
    made = batch_of(PAIRS, [1, 2, 3, 4], ["a", "b", "a", "c"])
    made = made.with_timestamps(pa.array([10, 20, 30, 40], pa.int64()))
    for _, part in Partition(KeyColumns((1,)), 128, 3).split(made):
        assert part.timestamp_list() == [10 * number for number, _ in part.rows()]


def test_key_groups_are_those_of_keys():
    made = batch_of(PAIRS, [5, 6], ["x", "y"])
    expected = [key_group(key_hash("LONG")(n), 64) for n in (5, 6)]
    assert list(key_groups(made, KeyColumns((0,), kind="LONG"), 64)) == expected
    assert [operator_index(64, 4, group) for group in expected] == [
        channel
        for row in made.rows()
        for channel, part in partition(made, KeyColumns((0,), kind="LONG"), 64, 4)
        if row in part.rows()
    ]


def test_declared_kinds_are_those_of_key_types():
    assert key_type_of(Types.LONG()).kind == "LONG"
    assert key_type_of(Types.FLOAT()).kind == "FLOAT"


def test_keys_that_are_none_are_refused():
    with pytest.raises(ValueError, match="2 fields"):
        KeyColumns((0, 1))
    with pytest.raises(ValueError, match="tuple"):
        KeyColumns((0, 1), is_tuple=True, kind="LONG")


def test_dates_are_hashed_by_their_form(runtime):
    day = datetime.date(2026, 11, 28)
    found = key_hashes(batch_of(Types.SQL_DATE(), [day, day]), KeyColumns((0,)))
    assert list(found) == [key_hash(None)(day)] * 2
