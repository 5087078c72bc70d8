"""Functions that read the fields of declared rows are evaluated, and never call Python."""

import pickle

import pytest
from penstock.common import Types
from penstock.common.types import Row
from penstock.expressions import as_tuple, field
from penstock.expressions.evaluation import Called, Evaluation, Stage
from penstock.network import runtime
from penstock.testing import PipelineTestHarness

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

POINT = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LONG()])
VISIT = Types.ROW_NAMED(
    ["user", "price", "at", "as_dict"],
    [Types.STRING(), Types.DOUBLE(), POINT, Types.LONG()],
)
VISITS = [
    Row(user="ada", price=1.5, at=Row(x=1, y=2), as_dict=7),
    Row(user="bob", price=-2.0, at=Row(x=3, y=4), as_dict=8),
]


def unpacked(row):
    user, price, (x, _), _ = row
    return (user, price * 2, x)


READERS = [
    lambda row: row.price * 2,
    lambda row: (row["user"], row["price"] > 0),
    lambda row: (row[0], row[1]),
    lambda row: row.at.x + row.at.y,
    lambda row: row["at"][1] + row[2].x,
    lambda row: row.user if row.price > 0 else row.at.x,
    unpacked,
]


def evaluated(function, arguments=1, types=(VISIT,)):
    """Return the function's expression; a call of the function fails."""
    from penstock._native.evaluator.expression import Expression

    def called(*values):
        pytest.fail(f"the function was called with {values}")

    program = Evaluation().program(function, arguments, types)
    assert program is not None
    return Expression(called, program)


@pytest.mark.parametrize("function", READERS)
def test_fields_of_a_declared_row_are_read_without_a_call(function):
    expression = evaluated(function)
    compute = expression.callable()
    assert [compute(visit) for visit in VISITS] == [function(visit) for visit in VISITS]
    assert (expression.evaluated, expression.given_up) == (2, 0)


def test_rows_that_were_unpickled_have_equal_names_only():
    visits = pickle.loads(pickle.dumps(VISITS))
    compute = evaluated(READERS[0]).callable()
    assert [compute(visit) for visit in visits] == [3.0, -4.0]


def test_rows_with_their_fields_in_another_order_are_read_by_name():
    compute = evaluated(lambda row: (row.x, row["y"]), types=(POINT,)).callable()
    rows = [Row(x=1, y=2), Row(y=2, x=1), Row(x=1, y=2)]
    assert [compute(row) for row in rows] == [(1, 2)] * 3


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (lambda row: row.x, Row(1, 2), AttributeError),
        (lambda row: row.x, Row(z=1), AttributeError),
        (lambda row: row["x"], Row(z=1), ValueError),
        (lambda row: row[5], Row(x=1, y=2), IndexError),
        (lambda row: row.x, (1, 2), AttributeError),
    ],
)
def test_other_rows_raise_the_functions_error(function, value, expected):
    compute = Evaluation().without_call(function, 1, (POINT,))
    with pytest.raises(expected):
        compute(value)


def test_negative_positions_and_computed_names_are_read_too():
    names = ["x", "y"]

    def by_name(row):
        return (row[-1], row[names[0]])

    def doubled(row):
        name = "x" if row[0] > 1 else "y"
        return row[name] * 2

    assert Evaluation().without_call(by_name, 1, (POINT,))(Row(x=1, y=2)) == (2, 1)
    compute = evaluated(doubled, types=(POINT,)).callable()
    assert [compute(Row(x=1, y=5)), compute(Row(x=3, y=5))] == [10, 6]


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda row: row.as_dict, (VISIT,)),  # a method, whatever the names of the fields
        (lambda row: row._values, (VISIT,)),
        (lambda row: row.nobody, (VISIT,)),
        (lambda row: row.user.upper(), (VISIT,)),
        (lambda row: row.user, ()),
        (lambda row: row.user, (Types.PICKLED_BYTE_ARRAY(),)),
    ],
)
def test_other_attributes_are_not_fields(function, types):
    decided = Evaluation().decide([Stage(function, types=types)])
    assert isinstance(decided, Called)
    assert "attribute" in decided.reason or "method" in decided.reason


def test_a_row_of_another_class_is_left_to_the_function():
    class Own(Row):
        __slots__ = ()

        def __getattribute__(self, name):
            return 42 if name == "x" else super().__getattribute__(name)

    compute = Evaluation().without_call(lambda row: row.x, 1, (POINT,))
    assert compute(Own(x=1, y=2)) == 42


def _counts(harness, name):
    metrics = {key: value for key, value in harness.metrics(name).items() if "valuat" in key}
    return metrics["numRecordsEvaluated"], metrics["numEvaluationsGivenUp"]


@pytest.mark.parametrize(
    "function",
    [
        as_tuple(field("x") * 2, field("y")),
        lambda row: (row.x * 2, row.y),
        lambda row: (row["x"] * 2, row["y"]),
        lambda row: (row[0] * 2, row[1]),
    ],
)
def test_a_job_counts_the_records_of_rows_that_it_evaluates(function):
    harness = PipelineTestHarness()
    rows = harness.source("in", POINT).map(lambda row: row, POINT).name("rows")
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    harness.sink("out", rows.map(function, pair).name("doubled"))
    with harness:
        for number in range(5):
            harness.process_element("in", Row(x=number, y=1))
        assert [record.value for record in harness.output("out").records] == [
            (number * 2, 1) for number in range(5)
        ]
        assert _counts(harness, "doubled") == (5, 0)
