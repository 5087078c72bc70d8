"""Expressions of the Table API have the values of the same calls in SQL."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.table import expressions as x
from penstock.table.expression import (
    Expression,
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonValueOnEmptyOrError,
)
from penstock.table.expression.call_resolution import resolve
from penstock.table.functions import registry
from penstock.table.functions.evaluation import Evaluator, Session
from penstock.table.plan.binder import Binder, find_aggregate
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.expressions import UnresolvedCall
from penstock.table.plan.scopes import Scope
from penstock.table.types import DataTypes
from penstock.table.types.arrow_types import python_values

ONE_ROW = pa.RecordBatch.from_arrays([pa.array([0])], ["$"])
JSON = x.lit('{"a": true, "b": [1, 2]}')
NULL, DEFAULT = JsonValueOnEmptyOrError.NULL, JsonValueOnEmptyOrError.DEFAULT


def value(expression):
    session = Session()
    binder = Binder(PlanningContext(lambda *_: None, session=session, text=""))
    bound = resolve(lambda *_: None, binder, expression.tree, Scope())
    return python_values(Evaluator([bound], session).column(bound, ONE_ROW), bound.type)[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (x.array(1, 2).at(2), 2),
        (x.array("a", "b").cardinality, 2),
        (x.map_("a", 1, "b", 2).at("b"), 2),
        (x.array(2, 1).array_sort(), [1, 2]),
        (x.map_from_arrays(x.array("a"), x.array(1)), {"a": 1}),
        (x.json_string(x.row(1, "a")), '{"f0":1,"f1":"a"}'),
        (JSON.json_value("$.a"), "true"),
        (JSON.json_value("$.a", DataTypes.BOOLEAN()), True),
        (JSON.json_value("lax $.z"), None),
        (JSON.json_value("lax $.z", DataTypes.INT(), DEFAULT, 7), 7),
        (JSON.json_value("strict $.z", DataTypes.STRING(), NULL, None, DEFAULT, "r"), "r"),
        (JSON.json_query("$.b"), "[1,2]"),
        (JSON.json_query("$.a", JsonQueryWrapper.CONDITIONAL_ARRAY), "[true]"),
        (
            JSON.json_query(
                "lax $.z",
                JsonQueryWrapper.WITHOUT_ARRAY,
                JsonQueryOnEmptyOrError.EMPTY_OBJECT,
            ),
            "{}",
        ),
        (JSON.json_exists("$.a"), True),
        (JSON.json_exists("strict $.z", JsonExistsOnError.UNKNOWN), None),
    ],
)
def test_values(expression, expected):
    assert value(expression) == expected


NO_FUNCTIONS = {"IN TABLE", "FLATTEN", "WINDOW_START", "WINDOW_END", "ROWTIME", "ASC", "DESC"}
"""Calls that a table replaces before the functions are looked up."""


def test_properties_call_functions_that_there_are():
    names = [name for name in dir(Expression) if not name.startswith("_") and name != "distinct"]
    trees = [getattr(getattr(x.lit(1), name), "tree", None) for name in names]
    called = {tree.function for tree in trees if isinstance(tree, UnresolvedCall)}
    assert len(called) > 60
    unknown = {f for f in called if registry.find(f) is None and find_aggregate(f) is None}
    assert unknown <= NO_FUNCTIONS
