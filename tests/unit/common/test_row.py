"""Row: construction, access, equality that agrees with hashing, conversion, pickling."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.common import Row, RowKind


def test_named_fields_are_found_by_index_name_and_attribute():
    row = Row(name="ann", age=3)
    assert (row[0], row["name"], row.name, row[1:], len(row)) == ("ann", "ann", "ann", [3], 2)
    assert "age" in row
    assert "ann" not in row
    assert repr(row) == "Row(name='ann', age=3)"


def test_positional_fields_are_values():
    row = Row("ann", 3)
    assert "ann" in row
    assert repr(row) == "<Row('ann', 3)>"
    with pytest.raises(TypeError):
        row.as_dict()


def test_a_row_of_names_makes_rows():
    person = Row("name", "age")
    assert person("bob", 4) == Row(name="bob", age=4)
    with pytest.raises(ValueError, match="3 values"):
        person(1, 2, 3)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda row: row.missing, AttributeError),
        (lambda row: row["missing"], ValueError),
        (lambda row: setattr(row, "a", 5), AttributeError),
        (lambda row: row.__setitem__("missing", 5), ValueError),
        (lambda row: row.get_fields_by_names(["missing"]), ValueError),
        (lambda row: Row(1, a=2), ValueError),
    ],
)
def test_wrong_use_is_refused(action, error):
    with pytest.raises(error):
        action(Row(a=1))


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1))
def test_order_of_names_changes_neither_equality_nor_hash(fields):
    names = list(fields)
    row, turned = Row(*fields.values()), Row(*reversed(fields.values()))
    row.set_field_names(names)
    turned.set_field_names(names[::-1])
    assert row == turned
    assert hash(row) == hash(turned)


def test_the_kind_counts():
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_rows_within_values_become_dictionaries_too():
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert row.as_dict(True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}}


def test_pickling_keeps_names_values_and_kind():
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])
    copy = pickle.loads(pickle.dumps(row))
    assert (copy, repr(copy), copy.get_row_kind()) == (row, repr(row), RowKind.UPDATE_AFTER)
