"""Frames of pandas become streams of rows, and tables become frames."""

from dataclasses import dataclass

import pytest
from penstock.common import Types
from penstock.datastream.data_stream.tables import pandas_of
from penstock.datastream.frames import source_of_pandas
from penstock.errors import InvalidProgramError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")


@dataclass
class Basket:
    user: str
    prices: dict[str, float]


def frame():
    table = pyarrow.Table.from_arrays(
        [
            pyarrow.array(["a", "b"]),
            pyarrow.array([[("x", 1.0)], []], pyarrow.map_(pyarrow.string(), pyarrow.float64())),
        ],
        names=["user", "prices"],
    )
    return pandas_of(table)


def test_a_map_is_a_dictionary_in_a_frame_and_a_schema_makes_it_a_map_again():
    assert list(frame()["prices"]) == [{"x": 1.0}, {}]
    source = source_of_pandas(frame(), Types.of(Basket))
    table = pyarrow.ipc.open_stream(source._batches[0]).read_all()
    assert pyarrow.types.is_map(table.schema.field("prices").type)
    assert table["prices"].to_pylist() == [[("x", 1.0)], []]
    assert source.get_produced_type().get_field_names() == ["user", "prices"]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("price", Types.DOUBLE(), r"no column 'price', .* did you mean 'prices'\?"),
        ("prices", Types.LONG(), "the values of the column 'prices' do not have the type int64"),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error(name, kind, message):
    with pytest.raises(InvalidProgramError, match=message):
        source_of_pandas(frame(), Types.ROW_NAMED([name], [kind]))
