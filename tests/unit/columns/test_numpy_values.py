"""Arrow's numbers, times and booleans as NumPy's, also those of a slice."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from penstock.formats.numpy_values import numpy_values


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
)
def test_numbers_of_a_slice(kind):
    found = numpy_values(pa.array(range(20), kind).slice(3, 9))
    assert found.dtype == kind.to_pandas_dtype()
    assert found.tolist() == list(range(3, 12))


def test_booleans_of_a_slice():
    values = [n % 3 == 0 for n in range(40)]
    assert numpy_values(pa.array(values).slice(11, 17)).tolist() == values[11:28]


def test_times_are_integers():
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert numpy_values(pa.array([moment], pa.timestamp("ms"))).tolist() == [1000]


def test_no_values():
    assert numpy_values(pa.array([], pa.int32())).dtype == np.int32
    assert numpy_values(pa.array([], pa.bool_())).tolist() == []
