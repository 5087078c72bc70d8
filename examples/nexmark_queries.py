"""Two queries of Nexmark in SQL, over generated bids of an auction house.

    python examples/nexmark_queries.py

Query 5 finds the auction with the most bids of the last ten seconds, every two seconds; query 7 the
highest bid of each ten seconds.  benchmarks/nexmark has all queries, and a larger generator.
"""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.expressions import field
from penstock.table import DataTypes, Schema, StreamTableEnvironment

BID = Types.ROW_NAMED(
    ["auction", "bidder", "price", "ts"], [Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()]
)
START_MS = 1_767_225_600_000  # 2026-01-01
#: 30 s of bids, ten a second; half of them are for a hot auction, another one each ten seconds.
BIDS = [
    {
        "auction": n // 100 if n % 2 else 10 + n % 7,
        "bidder": n % 13,
        "price": 100 + n * 37 % 1000,
        "ts": START_MS + n * 100,
    }
    for n in range(300)
]

QUERIES = {
    "q5": """
        SELECT auction, bids, window_end FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end ORDER BY bids DESC, auction) AS place
          FROM (
            SELECT auction, COUNT(*) AS bids, window_start, window_end
            FROM TABLE(
              HOP(TABLE bid, DESCRIPTOR(moment), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end
          )
        ) WHERE place = 1
    """,
    "q7": """
        SELECT b.auction, b.bidder, b.price, m.window_end
        FROM bid AS b JOIN (
          SELECT MAX(price) AS price, window_start, window_end
          FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(moment), INTERVAL '10' SECOND))
          GROUP BY window_start, window_end
        ) AS m ON b.price = m.price AND b.moment >= m.window_start AND b.moment < m.window_end
    """,
}


def define(env, query="q7"):
    """Return the stream of a query's rows."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field("ts"))
    stream = env.from_collection(BIDS, BID).assign_timestamps_and_watermarks(times)
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set("table.local-time-zone", "UTC")
    schema = (
        Schema.new_builder()
        .column("auction", DataTypes.BIGINT())
        .column("bidder", DataTypes.BIGINT())
        .column("price", DataTypes.BIGINT())
        .column_by_metadata("moment", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
        .watermark("moment", "SOURCE_WATERMARK()")
        .build()
    )
    tables.create_temporary_view("bid", tables.from_data_stream(stream, schema))
    return tables.to_changelog_stream(tables.sql_query(QUERIES[query]))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    for query in QUERIES:
        define(env, query).print(query)
    env.execute("nexmark")
