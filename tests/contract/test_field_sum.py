"""The running sum of a field: emitted records are never changed.

Goal: both runtimes emit the same sums; a stored record never changes.  Method: the operator of each
runtime with a receiver that stores all, some or none of its records.
"""

import importlib

import pytest

from contract.codecs import RUNTIMES

NO_TIMESTAMP = -(2**63)


@pytest.fixture(params=RUNTIMES)
def modules(request):
    """Return the field sum and the operator loop of a runtime."""
    if request.param == "native":
        paths = [f"penstock._native.operators.{n}" for n in ("field_sum", "operator_loop")]
        paths += ["penstock._native.keys.keys", "penstock._native.state.state_table"]
    else:
        paths = [f"penstock.taskexecutor.compiled.{n}" for n in ("field_sum", "operator_loop")]
        paths += ["penstock.serialization.pure.keys", "penstock.taskexecutor.state.table"]
    return [importlib.import_module(path) for path in paths]


def sums(modules, values, position=1, keep=lambda element: True, table=None):
    """Return the stored records, and copies of all of them made at emission."""
    field_sum, loop, keys, state_table = modules
    kept, copies = [], []

    class Keep(loop.Output):
        def collect(self, value, timestamp):
            copies.append(list(value))
            if keep(value):
                kept.append(value)

    def fold(first, second):
        raise AssertionError("only tuples come")

    operator = field_sum.SumFieldOperator(
        position,
        fold,
        keys.KeyReader(lambda value: value[0], 0, str, None),
        (state_table.StateTable("sum", "value") if table is None else table).map(None),
    )
    operator.setup(None, Keep())
    for value in values:
        operator.process(value, NO_TIMESTAMP)
    return kept, copies


def test_kept_elements_do_not_change(modules):
    values = [("a", 1, "x"), ("b", 10, "y"), ("a", 2, "z"), ("a", 3, "z"), ("b", 5, "z")]
    kept, copies = sums(modules, values)
    wanted = [("a", 1, "x"), ("b", 10, "y"), ("a", 3, "x"), ("a", 6, "x"), ("b", 15, "y")]
    assert kept == wanted
    assert copies == [list(element) for element in wanted]


def test_elements_kept_now_and_then_do_not_change(modules):
    values = [("a", 1) for _ in range(20)]
    kept, copies = sums(modules, values, keep=lambda element: element[1] % 3 == 0)
    assert kept == [("a", total) for total in range(3, 21, 3)]
    assert copies == [["a", total] for total in range(1, 21)]


def test_records_that_came_in_do_not_change(modules):
    values = [("a", 1), ("a", 2), ("a", 3)]
    _, copies = sums(modules, values, keep=lambda element: False)
    assert values == [("a", 1), ("a", 2), ("a", 3)]
    assert copies == [["a", 1], ["a", 3], ["a", 6]]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([2**62, 2**62, 2**62], 3 * 2**62),
        ([-1.5, 2.25, 0.25], 1.0),
        (["a", "b", "c"], "abc"),
        ([[1], [2], [3]], [1, 2, 3]),
        ([(1,), (2,), ([3],)], (1, 2, [3])),
    ],
)
def test_anything_that_adds(modules, values, total):
    table = modules[3].StateTable("sum", "value")
    elements = (("k", part) for part in values)
    _, copies = sums(modules, elements, keep=lambda element: False, table=table)
    assert copies[-1] == ["k", total]
    is_number = type(total) in (int, float)
    assert table.map(None).items() == [("k", total if is_number else ("k", total))]


@pytest.mark.parametrize(
    ("first", "second"), [(0, -0.0), (-0.0, 0), (-0.0, -0.0), (0.0, -0.0), (True, 2), (2**70, -1)]
)
def test_it_adds_as_python_does(modules, first, second):
    """Compiled, ``0 + -0.0`` must have Python's result, not C's."""
    kept, _ = sums(modules, [("a", first), ("a", second)])
    assert repr(kept[1][1]) == repr(first + second)


def test_hashed_tuples_are_not_changed(modules):
    """An interpreter may cache the hash of a tuple, so no element is changed in place."""
    hashes = {}

    def keep(element):
        hashes[hash(element)] = list(element)
        return False

    sums(modules, [("a", 1), ("a", 2), ("a", 3)], keep=keep)
    assert {key: hash(tuple(value)) for key, value in hashes.items()} == {h: h for h in hashes}


def test_records_of_other_shapes_come_to_the_fold(modules):
    """The state of a pair is a number, which must not be mistaken for an element."""
    field_sum, loop, keys, state_table = modules
    emitted = []

    class Keep(loop.Output):
        def collect(self, value, timestamp):
            emitted.append(value)

    def fold(first, second):
        return [first, second]

    operator = field_sum.SumFieldOperator(
        1,
        fold,
        keys.KeyReader(lambda value: value[0], 0, str, None),
        state_table.StateTable("sum", "value").map(None),
    )
    operator.setup(None, Keep())
    for value in (("a", 1), ("a", 2, 3), ["a", 4], ("a", 5), ["b", 1], ("b", 2), ("c", 1, 0)):
        operator.process(value, NO_TIMESTAMP)
    after_pair = [("a", 3), ["a", 4]]
    assert emitted == [
        ("a", 1),
        ("a", 3),
        after_pair,
        [after_pair, ("a", 5)],
        ["b", 1],
        [["b", 1], ("b", 2)],
        ("c", 1, 0),
    ]


def test_field_that_is_not_there(modules):
    with pytest.raises(IndexError):
        sums(modules, [("a",), ("a",)])
    with pytest.raises(IndexError):
        sums(modules, [("a", 1), ("a",)])
