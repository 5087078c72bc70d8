"""A Python function that returns None for a type that is NOT NULL fails, and says so."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from penstock.errors import JobExecutionError
from penstock.table import AggregateFunction, DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udaf, udf, udtf

INT = DataTypes.INT(nullable=False)


class Nothing(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, value):
        accumulator[0] += value

    def get_value(self, accumulator):
        return None


FUNCTIONS = {
    "scalar": (udf(lambda n: None if n == 2 else n, result_type=INT), "SELECT f(n) FROM numbers"),
    "pandas": (
        udf(lambda n: n.where(n != 2), result_type=INT, func_type="pandas"),
        "SELECT f(n) FROM numbers",
    ),
    "table": (
        udtf(lambda n: [n, None], result_types=[INT]),
        "SELECT m FROM numbers, LATERAL TABLE(f(n)) AS t(m)",
    ),
    "aggregate": (
        udaf(Nothing(), result_type=INT, accumulator_type=DataTypes.ARRAY(DataTypes.INT())),
        "SELECT f(n) FROM numbers GROUP BY n",
    ),
    "pandas aggregate": (
        udaf(lambda n: None, result_type=INT, func_type="pandas"),
        "SELECT f(n) FROM numbers GROUP BY n",
    ),
}


@pytest.fixture
def tables(monkeypatch):
    """The table `numbers`: 1 and 2."""
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    row = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT())])
    env.create_temporary_view("numbers", env.from_elements([(1,), (2,)], row))
    return env


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_none_is_an_error(tables, kind):
    function, query = FUNCTIONS[kind]
    tables.create_temporary_function("f", function)
    with pytest.raises(
        (TypeError, JobExecutionError), match="returned None, but its result has the type INT NOT"
    ):
        list(tables.execute_sql(query).collect())


def test_a_branch_that_is_not_taken_does_not_count(tables):
    tables.create_temporary_function("f", FUNCTIONS["scalar"][0])
    query = "SELECT CASE WHEN n = 1 THEN f(n) ELSE 0 END FROM numbers"
    assert sorted(map(tuple, tables.execute_sql(query).collect())) == [(0,), (1,)]
