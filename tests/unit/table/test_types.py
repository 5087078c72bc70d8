"""Data types: their spelling in SQL and in Python, and their values through Arrow and back."""

import datetime
import decimal

import pytest
from penstock.common import Row
from penstock.table.exceptions import InvalidTypeError
from penstock.table.types import DataTypes, TimeAttribute
from penstock.table.types.arrow_types import (
    arrow_array,
    arrow_type,
    data_type_of_arrow,
    python_values,
)

D = DataTypes


@pytest.mark.parametrize(
    ("data_type", "sql", "python"),
    [
        (D.INT().not_null(), "INT NOT NULL", "IntType(false)"),
        (D.STRING(), "STRING", "VarCharType(2147483647, true)"),
        (D.VARCHAR(3), "VARCHAR(3)", "VarCharType(3, true)"),
        (D.BYTES(), "BYTES", "VarBinaryType(2147483647, true)"),
        (D.DECIMAL(10, 2), "DECIMAL(10, 2)", "DecimalType(10, 2, true)"),
        (D.TIMESTAMP_LTZ(3), "TIMESTAMP_LTZ(3)", "LocalZonedTimestampType(3, true)"),
        (D.ARRAY(D.INT().not_null()), "ARRAY<INT NOT NULL>", "ArrayType(IntType(false), true)"),
        (
            D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.STRING())]),
            "ROW<`a` INT, `b` STRING>",
            "RowType(RowField(a, IntType(true), ...),"
            "RowField(b, VarCharType(2147483647, true), ...))",
        ),
        (D.INTERVAL(D.SECOND(3)), "INTERVAL SECOND(3)", "DayTimeIntervalType(true)"),
        (
            D.INTERVAL(D.DAY(), D.SECOND(3)),
            "INTERVAL DAY(2) TO SECOND(3)",
            "DayTimeIntervalType(true)",
        ),
        (D.INTERVAL(D.YEAR(), D.MONTH()), "INTERVAL YEAR(2) TO MONTH", None),
    ],
)
def test_spelling(data_type, sql, python):
    assert str(data_type) == sql
    if python is not None:
        assert repr(data_type) == python


def test_equality_ignores_time_attributes_but_not_nullability():
    plain = D.TIMESTAMP(3)
    rowtime = plain.with_time_attribute(TimeAttribute.ROWTIME)
    assert rowtime == plain
    assert rowtime.is_rowtime
    assert not plain.is_rowtime
    assert rowtime.not_null().describe() == "TIMESTAMP(3) NOT NULL *ROWTIME*"
    assert rowtime.not_null() != plain
    assert len({D.INT(), D.INT(), D.INT().not_null(), D.ARRAY(D.INT())}) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.DECIMAL(39, 0),
        lambda: D.DECIMAL(5, 6),
        lambda: D.VARCHAR(0),
        lambda: D.TIME(10),
        lambda: D.INTERVAL(D.MONTH(), D.SECOND()),
    ],
)
def test_invalid_types_are_refused(make):
    with pytest.raises(InvalidTypeError):
        make()


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        (D.BIGINT(), [1, None], None),
        (D.FLOAT(), [0.5, None], None),
        (D.BYTES(), [bytearray(b"a"), None], [b"a", None]),
        (D.DATE(), [datetime.date(1969, 12, 31)], None),
        (D.TIME(3), [datetime.time(1, 2, 3, 4000)], None),
        (D.TIMESTAMP(9), [datetime.datetime(2024, 1, 2, 3, 4, 5, 6)], None),
        (
            D.TIMESTAMP_LTZ(3),
            [datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)],
            None,
        ),
        (
            D.DECIMAL(5, 2),
            [decimal.Decimal("1.005"), decimal.Decimal(10000), None],
            [decimal.Decimal("1.01"), None, None],
        ),
        (D.ARRAY(D.STRING()), [["a", None], [], None], None),
        (D.MAP(D.STRING(), D.ARRAY(D.INT())), [{"a": [1], "b": None}, {}, None], None),
        (D.MULTISET(D.STRING()), [{"a": 2}, None], None),
        (
            D.ROW([D.FIELD("x", D.INT()), D.FIELD("y", D.ROW([D.FIELD("z", D.BYTES())]))]),
            [(1, Row(z=b"q")), {"y": [b"r"], "x": 2}, Row(3, None), None],
            [Row(1, Row(b"q")), Row(2, Row(b"r")), Row(3, None), None],
        ),
    ],
)
def test_values_through_arrow(data_type, values, expected):
    array = arrow_array(values, data_type)
    assert array.type == arrow_type(data_type)
    expected = values if expected is None else expected
    assert python_values(array, data_type) == expected
    if len(values) > 1:
        assert python_values(array.slice(1), data_type) == expected[1:]


def test_a_value_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="TINYINT"):
        arrow_array([128], D.TINYINT())
    with pytest.raises((TypeError, ValueError), match="INT"):
        arrow_array(["x"], D.INT())


def test_types_of_arrow_columns():
    row = D.ROW(
        [D.FIELD("a", D.MAP(D.STRING().not_null(), D.DECIMAL(5, 2))), D.FIELD("t", D.DATE())]
    )
    assert data_type_of_arrow(arrow_type(row)) == row
