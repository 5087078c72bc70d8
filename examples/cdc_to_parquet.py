"""Every change of a PostgreSQL table written to Parquet files, exactly once.

    python examples/cdc_to_parquet.py --database URL --table orders --files FOLDER [--bounded]

The table has the columns ``id``, ``item`` and ``price``; the files have them too, and the kind of
the change: ``+I`` the row was inserted, ``+U`` updated, ``-D`` deleted.  With ``--bounded`` the
program reads the table's present content, and ends.
"""

import argparse

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.datastream.formats.parquet import ParquetBulkWriters

COLUMNS = ["id", "item", "price"]
KINDS = [Types.LONG(), Types.STRING(), Types.DOUBLE()]
CHANGE = Types.ROW_NAMED(["change", *COLUMNS], [Types.STRING(), *KINDS])


def define(env, database, table, files, *, bounded):
    """Add the operators of the program to an environment."""
    source = PostgresCdcSource(
        database, table, Types.ROW_NAMED(COLUMNS, KINDS), slot="cdc_to_parquet", bounded=bounded
    )
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "changes")
    changes = rows.map(
        lambda row: Row(change=str(row.get_row_kind()), **row.as_dict()), output_type=CHANGE
    )
    changes.sink_to(
        FileSink.for_bulk_format(files, ParquetBulkWriters.for_row_type(CHANGE)).build()
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="as postgresql://user@host/database")
    parser.add_argument("--table", required=True)
    parser.add_argument("--files", required=True, help="the folder of the files")
    parser.add_argument("--bounded", action="store_true", help="end with what is there now")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    define(env, arguments.database, arguments.table, arguments.files, bounded=arguments.bounded)
    env.execute("CDC to Parquet")
