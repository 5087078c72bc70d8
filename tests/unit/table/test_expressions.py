"""Expressions: operators and methods build calls with SQL's names; misuse is an error."""

import datetime

import pytest
from penstock.table import expressions as x
from penstock.table.exceptions import ValidationException
from penstock.table.expression import Expression, TimeIntervalUnit, TimePointUnit
from penstock.table.plan.expressions import UnresolvedCall, UnresolvedCast, UnresolvedLiteral
from penstock.table.types import DataTypes

A = x.col("a")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A + 1, "+(a, 1)"),
        (1 - A, "-(1, a)"),
        (A**2, "POWER(a, 2)"),
        (A % 3, "MOD(a, 3)"),
        (-A, "NEGATIVE(a)"),
        (~A, "IS NOT TRUE(a)"),
        ((A > 1) & (A <= 5), "AND(>(a, 1), <=(a, 5))"),
        (A == "x", "=(a, 'x')"),
        (A.upper_case, "UPPER(a)"),
        (A.substring(2), "SUBSTRING(a, 2)"),
        (A.substring(2, 3), "SUBSTRING(a, 2, 3)"),
        (A.in_(1, 2), "IN(a, 1, 2)"),
        (A.log(2), "LOG(2, a)"),
        (x.and_(A, True, False), "AND(AND(a, True), False)"),
        (x.concat_ws("-", A, "b"), "CONCAT_WS('-', a, 'b')"),
        (A.alias("b"), "a AS b"),
        (x.call("f", A), "f(a)"),
    ],
)
def test_calls_have_sql_names(expression, text):
    assert isinstance(expression, Expression)
    assert str(expression) == text


def test_options_of_calls():
    assert A.extract(TimeIntervalUnit.YEAR).tree.options == ("YEAR",)
    assert x.timestamp_diff(TimePointUnit.DAY, A, A).tree.options == ("DAY",)
    assert A.trim_leading("x").tree == UnresolvedCall(
        "TRIM", (A.tree, UnresolvedLiteral("x")), options=("LEADING",)
    )
    assert A.sum.distinct.tree.is_distinct


def test_fields_of_rows():
    assert A.name.tree == A.get("name").tree
    assert A["k"].tree == A.at("k").tree


def test_intervals():
    assert x.lit(3).hours.tree.value == datetime.timedelta(hours=3)
    assert x.lit(2).years.tree.value == 24
    with pytest.raises(ValidationException, match="number"):
        _ = A.days


def test_casts():
    tree = A.try_cast(DataTypes.INT()).tree
    assert isinstance(tree, UnresolvedCast)
    assert tree.is_try


def test_misuse():
    with pytest.raises(AttributeError, match="no SQL type"):
        x.lit(object())
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(A > 1)
    with pytest.raises(TypeError, match="iterated"):
        list(A)
    with pytest.raises(AttributeError):
        _ = A._private
