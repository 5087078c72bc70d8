"""The running sum of a field: what was emitted stays as it was, whatever the fold does in place.

Goal: both runtimes emit the same sums; nobody who kept an element sees it change.
Method: the operator of each runtime with a receiver that keeps all, some or none of its elements.
"""

import gc
import importlib

import pytest

from contract.codecs import RUNTIMES

NO_TIMESTAMP = -(2**63)


@pytest.fixture(params=RUNTIMES)
def modules(request):
    """The field sum and the operator loop of a runtime."""
    if request.param == "native":
        return (
            importlib.import_module("penstock._native.field_sum"),
            importlib.import_module("penstock._native.operator_loop"),
        )
    return (
        importlib.import_module("penstock.taskexecutor.field_sum"),
        importlib.import_module("penstock.taskexecutor.operator_loop"),
    )


def sums(modules, values, position=1, keep=lambda element: True, table=None):
    """The kept elements, and copies of all of them made when they were emitted."""
    field_sum, loop = modules
    kept, copies = [], []

    class Keep(loop.Output):
        def collect(self, value, timestamp):
            copies.append(list(value))
            if keep(value):
                kept.append(value)

    def fold(first, second):
        raise AssertionError("only tuples come")

    operator = field_sum.SumFieldOperator(
        position, fold, lambda value: value[0], 0, {} if table is None else table
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


def test_elements_that_came_in_do_not_change(modules):
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
    table = {}
    elements = (("k", part) for part in values)
    _, copies = sums(modules, elements, keep=lambda element: False, table=table)
    assert copies[-1] == ["k", total]
    assert table == {"k": ("k", total)}
    gc.collect()
    assert table == {"k": ("k", total)}


def test_field_that_is_not_there(modules):
    with pytest.raises(IndexError):
        sums(modules, [("a",), ("a",)])
    with pytest.raises(IndexError):
        sums(modules, [("a", 1), ("a",)])
