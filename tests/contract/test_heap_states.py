"""Keyed states in memory and their type checks: the compiled ones behave like the plain ones.

Goal: each state shows the entry of the current key in the current namespace, and nothing else.
Method: the states of both runtimes over a table, whose key the test changes.
"""

import importlib

import pytest
from penstock.common import Row
from penstock.common.typeinfo import Types
from penstock.datastream.functions import AggregateFunction
from penstock.errors import SerializationError

from contract.codecs import RUNTIMES


@pytest.fixture(params=RUNTIMES)
def package(request):
    """Return a module of a runtime by its name."""
    room = "_native.state" if request.param == "native" else "taskexecutor.state"
    return lambda name: importlib.import_module(f"penstock.{room}.{name}")


@pytest.fixture
def states(package):
    return package("heap_states")


@pytest.fixture
def folds(package):
    return package("folding_states")


@pytest.fixture
def context(states):
    context = states.KeyContext()
    context.current_key = "a"
    return context


@pytest.fixture
def table(request, package):
    name = "state_table" if request.node.callspec.params["package"] == "native" else "table"
    return package(name).StateTable("state", "value")


def test_value(states, context, table):
    state = states.HeapValueState(context, table)
    assert state.value() is None
    state.update(1)
    context.current_key = "b"
    assert state.value() is None
    state.update(2)
    context.current_key = "a"
    assert state.value() == 1
    state.update(None)
    assert state.value() is None
    assert table.map(None).items() == [("b", 2)]
    context.current_key = "b"
    state.clear()
    assert table.map(None).items() == []


def test_keys_of_a_map_are_those_of_a_dictionary_but_nan_is_one(states, context, table):
    """As in PyFlink, except that there only the same NaN object finds its entry."""
    state = states.HeapMapState(context, table)
    for key in (1, 1.0, True, 0.0, -0.0, float("nan"), float("-nan"), (1, float("nan"))):
        state.put(key, repr(key))
    assert list(state.values()) == ["True", "-0.0", "nan", "(1, nan)"]
    assert state.get(float("nan")) == "nan"
    assert state.contains((1, float("nan")))
    state.remove(float("nan"))
    state.remove((1, float("nan")))
    assert list(state.keys()) == [1, 0.0]


def test_namespaces(states, context, table):
    state = states.HeapValueState(context, table)
    state.update("none")
    state.set_current_namespace("window")
    assert state.value() is None
    state.update("window")
    state.set_current_namespace(None)
    assert state.value() == "none"


def test_list(states, context, table):
    state = states.HeapListState(context, table)
    assert state.get() == []
    state.add(1)
    state.add_all([2, 3])
    assert list(state) == [1, 2, 3]
    state.update(iter([4]))
    assert state.get() == [4]
    state.set_current_namespace("other")
    state.add(5)
    state.set_current_namespace(None)
    state.merge_namespaces(None, ["other", "empty"])
    assert state.get() == [4, 5]


def test_map(states, context, table):
    state = states.HeapMapState(context, table)
    assert state.is_empty()
    assert state.get("x") is None
    state.put("x", 1)
    state["y"] = 2
    state.put_all([("z", 3)])
    state.put_all({"w": 4})
    assert sorted(state.items()) == [("w", 4), ("x", 1), ("y", 2), ("z", 3)]
    assert sorted(state) == sorted(state.keys()) == ["w", "x", "y", "z"]
    assert sorted(state.values()) == [1, 2, 3, 4]
    assert "x" in state
    assert not state.contains("v")
    del state["x"]
    for key in ("y", "z", "w", "not there"):
        state.remove(key)
    assert state.is_empty()
    assert table.map(None).items() == [], "an empty map takes no entry"


def test_reducing(folds, context, table):
    state = folds.HeapReducingState(context, table, lambda first, second: first + second)
    assert state.get() is None
    state.add(1)
    state.add(2)
    state.set_current_namespace("other")
    state.add(10)
    state.set_current_namespace(None)
    state.merge_namespaces(None, ["other"])
    assert state.get() == 13


def test_aggregating(folds, context, table):
    class Mean(AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, acc_a, acc_b):
            return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    state = folds.HeapAggregatingState(context, table, Mean(), Mean().add)
    assert state.get() is None
    state.add(1)
    state.add(2)
    state.set_current_namespace("other")
    state.add(6)
    state.set_current_namespace(None)
    state.merge_namespaces(None, ["other"])
    assert state.get() == 3.0


@pytest.mark.parametrize(
    ("type_info", "good", "bad"),
    [
        (Types.LONG(), [0, -(2**63), 2**63 - 1, True], [2**63, -(2**63) - 1, 1.0, "1", [1]]),
        (Types.BYTE(), [127, -128], [128, -129]),
        (Types.STRING(), ["", "x"], [b"x", 1]),
        (Types.DOUBLE(), [1.5, 1], ["1.5"]),
        (Types.TUPLE([Types.INT()]), [(1,)], [1, "1", [1], ("a",)]),
        (Types.ROW([Types.INT()]), [Row(1), Row(f0=1)], [1, {"f0": 1}, (1,), [1], Row("a")]),
        (Types.BOOLEAN(), [True, 0], ["yes", None]),
        (Types.LIST(Types.INT()), [[1, None]], [(1,), ["a"]]),
    ],
)
def test_type_checks(package, type_info, good, bad):
    check = package("type_check").value_check(type_info, "count")
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(SerializationError, match="state 'count' is declared as"):
            check(value)


def test_undeclared_takes_all(package):
    assert package("type_check").value_check(Types.PICKLED_BYTE_ARRAY(), "state") is None


def test_refused_value_leaves_the_state(states, package, context, table):
    check = package("type_check").value_check(Types.LONG(), "count")
    state = states.HeapValueState(context, table, check)
    state.update(1)
    with pytest.raises(SerializationError):
        state.update("no number")
    assert state.value() == 1


def test_methods_take_their_arguments_by_name(states, context, table):
    state = states.HeapValueState(context, table)
    state.update(value=3)
    assert state.value() == 3


def test_an_entry_used_last_is_not_taken_for_another(states, package, context, table):
    """Entries are remembered by position, which later entries reuse."""
    state = states.HeapValueState(context, table)
    for key in ("a", 1, ("t", 1)):
        context.current_key = key
        state.update(0)
        assert state.value() == 0
        state.clear()
        assert state.value() is None
        context.current_key = "other"
        state.update(5)
        context.current_key = key
        assert state.value() is None
        state.update(7)
        table.map(None).clear()
        assert state.value() is None
        state.update(8)
        assert (state.value(), len(table)) == (8, 1)
