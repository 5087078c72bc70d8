"""`from_collection` returns the rows of other libraries' tables, never their column names."""

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from penstock.common import Configuration, Row, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError

DAY = datetime.datetime(2024, 5, 6, 7, 8, 9)
COLUMNS = {"name": ["a", None], "number": [1, 2], "share": [0.5, 1.5], "day": [DAY, DAY]}
ROWS = [
    Row(name="a", number=1, share=0.5, day=DAY),
    Row(name=None, number=2, share=1.5, day=DAY),
]


def collected(collection: Any, type_info: Any = None) -> list[Any]:
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    stream = env.from_collection(collection, type_info)
    with stream.execute_and_collect() as results:
        return list(results)


def table(library: str, columns: dict[str, Any]) -> Any:
    if library == "arrow":
        return pa.table(columns)
    if library == "batch":
        return pa.record_batch(columns)
    return pytest.importorskip(library).DataFrame(columns)


LIBRARIES = ["pandas", "polars", "arrow", "batch"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_with_the_names_of_the_columns(library: str) -> None:
    """Values are Python's own: a worker need not have the library."""
    rows = collected(table(library, COLUMNS))
    assert rows == ROWS
    assert [type(value) for value in rows[0]] == [str, int, float, datetime.datetime]


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_of_declared_types(library: str) -> None:
    columns = {"word": ["a", "b"], "count": [1, 2]}
    fields = [Types.STRING(), Types.LONG()]
    assert collected(table(library, columns), Types.TUPLE(fields)) == [("a", 1), ("b", 2)]
    named = Types.ROW_NAMED(["word", "count"], fields)
    assert collected(table(library, columns), named) == [
        Row(word="a", count=1),
        Row(word="b", count=2),
    ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_empty_table_has_no_rows(library: str) -> None:
    assert collected(table(library, {"a": []})) == []


def test_missing_values_of_pandas() -> None:
    """They become None, except for NaN in a column of floats, which is a number there."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "day": [pandas.NaT, pandas.Timestamp(DAY)],
            "whole": pandas.array([None, 3], dtype="Int64"),
            "real": [math.nan, 2.0],
            "text": ["x", math.nan],
            "span": [pandas.Timedelta(datetime.timedelta(seconds=1)), pandas.NaT],
        }
    )
    first, second = collected(frame)
    assert (first.day, first.whole, first.text) == (None, None, "x")
    assert math.isnan(first.real)
    assert first.span == datetime.timedelta(seconds=1)
    assert (second.day, second.whole, second.text, second.span) == (DAY, 3, None, None)


def test_single_columns_give_their_values() -> None:
    assert collected(pa.array([1, None])) == [1, None]
    assert collected(pa.chunked_array([[1], [2]])) == [1, 2]
    pandas = pytest.importorskip("pandas")
    (value,) = collected(pandas.Series([np.int64(3)]))
    assert type(value) is int
    polars = pytest.importorskip("polars")
    assert collected(polars.Series([1, 2])) == [1, 2]


def test_columns_of_one_name_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InvalidProgramError, match="columns share a name: a, a"):
        collected(frame)


def test_a_frame_that_is_not_computed_is_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidProgramError, match=r"call collect\(\)"):
        collected(polars.LazyFrame({"a": [1]}))


def test_rows_that_spark_collected() -> None:
    """A worker of another target has no pyspark to unpickle them."""
    spark = pytest.importorskip("pyspark.sql")
    rows = [spark.Row(a=1, b=spark.Row(c="x")), spark.Row(a=2, b=None)]
    found = collected(rows)
    assert found == [Row(a=1, b=Row(c="x")), Row(a=2, b=None)]
    assert type(found[0]) is Row
    assert type(found[0].b) is Row


def test_a_frame_of_spark_is_refused() -> None:
    """Its rows are on a cluster."""
    pytest.importorskip("pyspark")
    from pyspark.sql.classic.dataframe import DataFrame

    expected = r"pyspark DataFrame are not in this process.*collect\(\)"
    with pytest.raises(InvalidProgramError, match=expected):
        collected(DataFrame.__new__(DataFrame))
