"""Types of the columns of streams that become tables; they are Flink 2.3's."""

import pytest
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (Types.INT(), "INT NOT NULL"),
        (Types.DOUBLE(), "DOUBLE NOT NULL"),
        (Types.BOOLEAN(), "BOOLEAN NOT NULL"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES NOT NULL"),
        (Types.MAP(Types.STRING(), Types.INT()), "MAP<STRING, INT> NOT NULL"),
        (Types.STRING(), "STRING"),
        (Types.BIG_DEC(), "DECIMAL(38, 18)"),
        (Types.ROW([Types.INT()]), "INT"),
    ],
)
def test_records_that_are_never_none_are_not_null(kind, column):
    env = StreamExecutionEnvironment.get_execution_environment()
    table = StreamTableEnvironment.create(env).from_data_stream(env.from_collection([], kind))
    assert str(table.get_schema()).split(": ")[1].strip() == column
