"""`DataTypes` of the Table API describe types for builders of streams and formats.

Method: builders get the type of a column, and the stored type is compared.
"""

import pytest
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.formats.csv import CsvSchema
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import InvalidProgramError
from penstock.formats.compression import is_compressed
from penstock.table import DataTypes

ROW = DataTypes.ROW(
    [DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())]
)
DECLARED = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])


def test_columns_of_csv():
    builder = CsvSchema.builder().add_number_column("n", DataTypes.BIGINT())
    builder.add_array_column("a", element_type=DataTypes.INT()).add_column("d", DataTypes.DATE())
    schema = builder.build()
    expected = [Types.LONG(), Types.BASIC_ARRAY(Types.INT()), Types.SQL_DATE()]
    assert schema.row_type == Types.ROW_NAMED(["n", "a", "d"], expected)
    with pytest.raises(InvalidProgramError, match="takes a type of numbers"):
        CsvSchema.builder().add_number_column("s", DataTypes.STRING())


def test_rows_of_other_formats():
    assert ParquetBulkWriters.for_row_type(ROW).get_row_type() == DECLARED
    assert JsonRowSerializationSchema.builder().with_type_info(ROW).build()._type_info == DECLARED


def test_types_of_streams():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([(1, "a")], ROW)
    assert (stream.get_type(), stream.get_type().get_field_names()) == (DECLARED, ["n", "s"])
    assert stream.map(lambda row: row.n, DataTypes.BIGINT()).get_type() == Types.LONG()


@pytest.mark.parametrize("name", ["a.gz", "a.GZ", "a.csv.Gz", "a.ZST", "a.bz2"])
def test_names_of_compressed_files_have_any_case(name):
    assert is_compressed(name)
    assert not is_compressed(name[:-1])
