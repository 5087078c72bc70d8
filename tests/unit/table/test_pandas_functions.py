"""Results of pandas functions become columns, in which NaN is NULL, as in PyFlink."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from penstock.common import Row
from penstock.errors import JobExecutionError
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from penstock.table.expressions import col
from penstock.table.udf import udaf, udf, udtf

PAIR = DataTypes.ROW(
    [DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("x", DataTypes.DOUBLE())]
)


@pytest.fixture
def numbers(monkeypatch):
    """The table `n`, 1 to 3, of which the second `x` is NULL."""
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    return tables.from_elements([(1, 0.5), (2, None), (3, 1.5)], PAIR)


def rows(table):
    with table.execute().collect() as results:
        return sorted(map(tuple, results))


def test_nan_of_a_series_is_null(numbers):
    halved = udf(lambda x: x / 2, result_type=DataTypes.DOUBLE(), func_type="pandas")
    found = rows(numbers.select(numbers.n, halved(numbers.x)))
    assert found == [(1, 0.25), (2, None), (3, 0.75)]


def test_nan_of_a_frame_is_null(numbers):
    doubled = udf(lambda frame: frame * 2, result_type=PAIR, func_type="pandas")
    assert rows(numbers.map(doubled)) == [(2, 1.0), (4, None), (6, 3.0)]


def test_a_frame_has_as_many_columns_as_the_row(numbers):
    short = udf(lambda frame: frame[["n"]], result_type=PAIR, func_type="pandas")
    with pytest.raises((ValueError, JobExecutionError), match="1 columns for the 2 fields"):
        rows(numbers.map(short))


def test_nan_of_an_aggregate_is_null(numbers):
    mean = udaf(lambda x: x.mean(), result_type=DataTypes.DOUBLE(), func_type="pandas")
    both = udaf(lambda n, x: Row(n.max(), x.max()), result_type=PAIR, func_type="pandas")
    groups = numbers.group_by(numbers.n)
    assert rows(groups.select(numbers.n, mean(numbers.x))) == [(1, 0.5), (2, None), (3, 1.5)]
    pairs = groups.aggregate(both(numbers.n, numbers.x).alias("m", "y")).select(col("m"), col("y"))
    assert rows(pairs) == [(1, 0.5), (2, None), (3, 1.5)]


def test_row_operations_name_a_function_of_another_kind(numbers):
    doubled = udf(lambda row: row.n * 2, result_type=DataTypes.BIGINT())
    repeated = udtf(lambda row: [row.n], result_types=[DataTypes.BIGINT()])
    with pytest.raises(ValidationException, match="Only a table function"):
        numbers.flat_map(doubled)
    with pytest.raises(ValidationException, match="Only a scalar function"):
        numbers.map(repeated)


def test_a_fraction_does_not_fit_an_integer(numbers):
    halved = udf(lambda x: x / 2, result_type=DataTypes.INT(), func_type="pandas")
    with pytest.raises((ValueError, JobExecutionError), match="does not fit the type INT"):
        rows(numbers.select(halved(numbers.n)))


def test_plain_functions_convert_numbers_as_pyflink_does(numbers):
    halved = udf(lambda x: x / 2, result_type=DataTypes.INT())
    large = udf(lambda x: x > 2, result_type=DataTypes.BIGINT())
    found = rows(numbers.select(numbers.n, halved(numbers.n), large(numbers.n)))
    assert found == [(1, 0, 0), (2, 1, 0), (3, 1, 1)]
