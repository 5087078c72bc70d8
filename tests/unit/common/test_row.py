"""Row: construction, access, equality that agrees with hashing, conversion, pickling."""

import datetime
import functools
import gc
import os
import pickle
import subprocess
import sys
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.common import Row, RowKind
from penstock.common.types import rows_of_columns
from penstock.network import runtime


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


@pytest.mark.parametrize("ask", [lambda row: row.k, lambda row: row["k"]])
def test_a_missing_field_is_named_beside_those_that_are_there(ask):
    with pytest.raises((AttributeError, ValueError), match=r"no field 'k', it has \['a'\]"):
        ask(Row(a=1))
    with pytest.raises(AttributeError, match="no field 'k', its fields have no names"):
        ask(Row(1))


def test_a_missing_attribute_tells_its_name_and_row():
    row = Row(a=1)
    with pytest.raises(AttributeError) as raised:
        row.k  # noqa: B018
    assert (raised.value.name, raised.value.obj) == ("k", row)
    with pytest.raises(AttributeError, match="'Row' object has no attribute '__k__'"):
        row.__k__  # noqa: B018
    assert getattr(row, "_k", 5) == 5


def test_names_without_values_are_no_fields():
    row = Row(1)
    row.set_field_names(["a", "b"])
    assert (row.a, row["a"], hasattr(row, "b")) == (1, 1, False)
    with pytest.raises(IndexError):
        row["b"]
    with pytest.raises(IndexError):
        row["b"] = 2


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
    assert Row.of_kind(RowKind.DELETE, "a")(1).get_row_kind() is RowKind.DELETE
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])
    copy = pickle.loads(pickle.dumps(row))
    assert (copy, repr(copy), copy.get_row_kind()) == (row, repr(row), RowKind.UPDATE_AFTER)


def test_a_row_answers_as_before_whatever_its_fields_are_called():
    row = Row(as_dict=1, _fields=2, _private=3, __dunder=4, kind=5)
    assert row.as_dict()["as_dict"] == 1
    assert row["_fields"] == 2
    assert row._fields == ["as_dict", "_fields", "_private", "__dunder", "kind"]
    assert (row._private, row.kind) == (3, 5)
    with pytest.raises(AttributeError):
        getattr(row, "__dunder")
    name = "".join(["ki", "nd"])  # equal, but not the same object
    assert (getattr(row, name), row[name]) == (5, 5)
    with pytest.raises(AttributeError):
        Row(1, 2)._fields  # noqa: B018
    assert Row(1, 2)._values == [1, 2]
    assert vars(Row(1)) == {"_values": [1], "_row_kind": RowKind.INSERT}
    assert vars(Row(a=1))["_fields"] == ["a"]


def test_a_row_can_be_changed_by_index_and_name():
    row = Row(a=1, b=2)
    row[0], row["b"] = 3, 4
    assert list(row) == [3, 4]
    row[0:2] = [5, 6]
    assert (row.a, row.b) == (5, 6)
    with pytest.raises(IndexError):
        row[2]
    with pytest.raises(AttributeError):
        Row(1)["a"]
    row.set_field_names(["c", "d"])
    assert (row.c, row["d"]) == (5, 6)
    row.set_row_kind(RowKind.DELETE)
    assert row.get_row_kind() is RowKind.DELETE


class Named(Row):
    """A row with attributes besides its fields."""

    def __init__(self, name):
        super().__init__(name=name)

    @property
    def shout(self):
        return self.name.upper()


def test_a_row_can_be_derived_from():
    row = Named("ann")
    assert (row.name, row.shout, row["name"], len(row)) == ("ann", "ANN", "ann", 1)
    assert row == Row(name="ann")
    with pytest.raises(AttributeError):
        row.missing  # noqa: B018


@pytest.mark.process
@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_plain_rows_do_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        check=True,
        timeout=240,
    )


def test_calls_of_every_form_make_the_same_row():
    """Rows by keywords, from a dict or a partial are equal; subclasses run their own methods."""
    names = {"a" * 20: 1, "b": [2]}
    row = Row(**names)
    assert row == functools.partial(Row, **{"a" * 20: 1})(b=[2])
    assert [Row(*range(n)) for n in (0, 1, 3)] == [
        Row.of_kind(RowKind.INSERT, *range(n)) for n in (0, 1, 3)
    ]
    assert Row() == Row()
    first, second = Row(x=1, y=2), Row(x=3, y=4)
    first.set_field_names(["p", "q"])
    assert second._field_names() == ["x", "y"]
    assert [Row(x=n)._fields for n in range(3)] == [["x"]] * 3

    class Counted(Row):
        made = 0

        def __init__(self, *args, **kwargs):
            Counted.made += 1
            super().__init__(*args, **kwargs)

    assert Counted(1).get_row_kind() is RowKind.INSERT
    assert (Counted(a=2).a, Counted.made) == (2, 2)


def test_names_are_found_whatever_object_they_are():
    """A name that was read from bytes is not the object that the code uses."""
    row = Row(1, 2, 3)
    row.set_field_names(["".join(list(name)) for name in ("user", "_own", "as_dict")])
    assert (row.user, row._own, row["as_dict"]) == (1, 2, 3)
    assert callable(row.as_dict)
    with pytest.raises(AttributeError):
        _ = row.other


@pytest.mark.skipif(runtime() != "native", reason="plain rows are ordinary objects")
def test_rows_of_values_outside_cycles_are_not_walked_by_the_garbage_collector():
    for row in (Row(a=1, b=2.5, c=None, d=datetime.date(2024, 1, 1)), Row("x", b"y")):
        assert not gc.is_tracked(row)
    for row in (Row(a=[]), Row(a=Row(b=1)), Row.of_kind(RowKind.DELETE, 1)):
        assert gc.is_tracked(row)


def _by_item(row, cycle):
    row[0] = cycle


def _by_slice(row, cycle):
    row[0:1] = [cycle]


def _by_values(row, cycle):
    row._values.append(cycle)


def _by_fields(row, cycle):
    row.get_fields_by_names(["a"]).append(cycle)


def _by_dict(row, cycle):
    row.__dict__["_values"].append(cycle)


def _by_new_values(row, cycle):
    row._values = [cycle]


@pytest.mark.parametrize(
    "change", [_by_item, _by_slice, _by_values, _by_fields, _by_dict, _by_new_values]
)
def test_a_row_that_becomes_part_of_a_cycle_is_collected(change):
    class Probe:
        pass

    probe, row = Probe(), Row(a=1)
    change(row, [row, probe])
    seen = weakref.ref(probe)
    del probe, row
    gc.collect()
    assert seen() is None


def renamed(name):
    """Return an equal text that is another object, like a name in an unpickled type."""
    return "".join(list(name))


def test_rows_of_columns_have_the_names_that_code_asks_for():
    rows = rows_of_columns([renamed("name"), renamed("age")], [["ann", "bob"], [3, 4]])
    assert rows == [Row(name="ann", age=3), Row(name="bob", age=4)]
    if runtime() == "native":
        assert all(name is sys.intern(name) for row in rows for name in row._field_names())


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_rows_of_columns_of_any_kind(kind):
    made = rows_of_columns(["a", "b"], [kind([1, None]), kind(["x", "y"])])
    assert made == [Row(a=1, b="x"), Row(a=None, b="y")]


def test_rows_of_no_columns_are_none():
    assert rows_of_columns([], []) == []


@pytest.mark.parametrize("columns", [[[1, 2], [3]], [(1, 2), [3]]])
def test_columns_of_different_lengths_are_refused(columns):
    with pytest.raises(ValueError, match=r"shorter|longer"):
        rows_of_columns(["a", "b"], columns)
