"""The queries in Flink SQL, by PyFlink's table environment: a peer, and a check of its results.

    PYTHON benchmarks/nexmark/flink_sql.py QUERY FOLDER JARS [--rows FILE]

Prints the seconds of the job as JSON; with ``--rows`` writes the rows of the result instead, a JSON
list on each line, after applying the changes that the query emits.  Streaming mode, parallelism 2,
into a sink that drops rows.
"""

import argparse
import collections
import datetime
import decimal
import json
import os
import time
from pathlib import Path

PARALLELISM = 2

DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"
MINUTE = "DATE_FORMAT(ts, 'HH:mm')"
DOLLARS = "CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE)"
CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"


def _ranks(counted="*", distinct=""):
    conditions = (
        "TRUE",
        "price < 10000",
        "price >= 10000 AND price < 1000000",
        "price >= 1000000",
    )
    return ", ".join(f"COUNT({distinct}{counted}) FILTER (WHERE {c})" for c in conditions)


def _hops(columns, keys):
    return (
        f"SELECT {columns} FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, "
        f"INTERVAL '10' SECOND)) GROUP BY {keys}window_start, window_end"
    )


PAIRS = (
    "auction A JOIN bid B ON A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
)

SQL = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": f"SELECT auction, bidder, {DOLLARS}, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        SELECT category, CAST(SUM(final) AS DOUBLE) / COUNT(*) FROM (
          SELECT A.id, A.category, MAX(B.price) AS final FROM {PAIRS} GROUP BY A.id, A.category
        ) GROUP BY category""",
    "q5": f"""
        SELECT A.auction, A.num, UNIX_TIMESTAMP(CAST(A.window_end AS STRING)) * 1000 FROM (
          {_hops("auction, COUNT(*) AS num, window_start, window_end", "auction, ")}
        ) A JOIN (
          SELECT MAX(num) AS most, window_start, window_end FROM (
            {_hops("auction, COUNT(*) AS num, window_start, window_end", "auction, ")}
          ) GROUP BY window_start, window_end
        ) M ON A.window_start = M.window_start AND A.window_end = M.window_end
        WHERE A.num >= M.most""",
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN (
          SELECT MAX(price) AS most, window_end FROM TABLE(
            TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)
          ) GROUP BY window_start, window_end
        ) M ON B.price = M.most
        WHERE B.`dateTime` / 10000 = UNIX_TIMESTAMP(CAST(M.window_end AS STRING)) / 10 - 1""",
    "q8": """
        SELECT P.id, P.name, UNIX_TIMESTAMP(CAST(P.window_start AS STRING)) * 1000 FROM (
          SELECT id, name, window_start, window_end FROM TABLE(
            TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND)
          ) GROUP BY id, name, window_start, window_end
        ) P JOIN (
          SELECT seller, window_start, window_end FROM TABLE(
            TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND)
          ) GROUP BY seller, window_start, window_end
        ) A ON P.id = A.seller AND P.window_start = A.window_start
          AND P.window_end = A.window_end""",
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller,
          category, extra, auction, bidder, price, bidTime, bidExtra
        FROM (
          SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve, A.`dateTime`, A.expires,
            A.seller, A.category, A.extra, B.auction, B.bidder, B.price, B.`dateTime` AS bidTime,
            B.extra AS bidExtra,
            ROW_NUMBER() OVER (
              PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime`, B.bidder, B.extra
            ) AS place
          FROM {PAIRS}
        ) WHERE place = 1""",
    "q10": f"SELECT auction, bidder, price, `dateTime`, extra, {DAY}, {MINUTE} FROM bid",
    "q11": """
        SELECT bidder, COUNT(*), MIN(`dateTime`), MAX(`dateTime`) + 10000 FROM TABLE(
          SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND)
        ) GROUP BY bidder, window_start, window_end""",
    "q14": f"""
        SELECT auction, bidder, {DOLLARS},
          CASE WHEN HOUR(ts) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
          `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
        FROM bid WHERE {DOLLARS} > 1000000 AND {DOLLARS} < 50000000""",
    "q15": f"""
        SELECT {DAY}, {_ranks()}, {_ranks("bidder", "DISTINCT ")},
          {_ranks("auction", "DISTINCT ")}
        FROM bid GROUP BY {DAY}""",
    "q16": f"""
        SELECT channel, {DAY}, MAX({MINUTE}), {_ranks()}, {_ranks("bidder", "DISTINCT ")},
          {_ranks("auction", "DISTINCT ")}
        FROM bid GROUP BY channel, {DAY}""",
    "q17": f"""
        SELECT auction, {DAY}, {_ranks()}, MIN(price), MAX(price),
          CAST(SUM(price) AS DOUBLE) / COUNT(*), SUM(price)
        FROM bid GROUP BY auction, {DAY}""",
    "q18": """
        SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY bidder, auction ORDER BY `dateTime` DESC, price DESC, extra DESC
          ) AS place FROM bid
        ) WHERE place <= 1""",
    "q19": """
        SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY auction ORDER BY price DESC, `dateTime`, bidder, extra
          ) AS place FROM bid
        ) WHERE place <= 10""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.`dateTime`, B.extra, A.itemName,
          A.description, A.initialBid, A.reserve, A.`dateTime`, A.expires, A.seller, A.category,
          A.extra
        FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0'
          WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
          ELSE {CHANNEL_ID} END
        FROM bid WHERE {CHANNEL_ID} IS NOT NULL
          OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3),
          SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5)
        FROM bid""",
    "q23": """
        SELECT B.auction, B.bidder, B.price, B.url, A.itemName, A.category, P.name, P.city
        FROM bid B JOIN auction A ON B.auction = A.id JOIN person P ON B.bidder = P.id""",
}
"""Without q6 and q13: Flink rejects the former, and the latter's side input is no table here."""

COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, "
    "state STRING, `dateTime` BIGINT, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "`dateTime` BIGINT, expires BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "`dateTime` BIGINT, extra STRING",
}


def origin(folder, table):
    """Return the options of a table: its file, or its topic if there is a broker."""
    if servers := os.environ.get("PENSTOCK_BENCH_KAFKA"):
        return (
            f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', "
            f"'topic' = '{folder.name}-{table}', 'scan.startup.mode' = 'earliest-offset', "
            "'scan.bounded.mode' = 'latest-offset', 'format' = 'json'"
        )
    path = f"file://{folder.resolve()}/{table}.parquet"
    return f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}'"


def environment(folder, jars):
    """Return a table environment with the tables of a folder."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = env.get_config()
    config.set("pipeline.jars", ";".join(f"file://{path.resolve()}" for path in jars.glob("*.jar")))
    config.set("parallelism.default", str(PARALLELISM))
    config.set("pipeline.object-reuse", "true")
    config.set("table.local-time-zone", "UTC")
    config.set("taskmanager.memory.managed.size", "1g")
    config.set("taskmanager.memory.network.max", "256m")
    config.set("taskmanager.numberOfTaskSlots", "4")
    for name, columns in COLUMNS.items():
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}, ts AS TO_TIMESTAMP_LTZ(`dateTime`, 3), "
            f"WATERMARK FOR ts AS ts) WITH ({origin(folder, name)})"
        )
    return env


def plain(value):
    """Return a value in its JSON form."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def rows_of(table):
    """Return the rows of a table after all changes."""
    from pyflink.common import RowKind

    removed = (RowKind.DELETE, RowKind.UPDATE_BEFORE)
    counts = collections.Counter()
    with table.execute().collect() as results:
        for row in results:
            counts[tuple(map(plain, row))] += -1 if row.get_row_kind() in removed else 1
    return counts.elements()


def seconds_of(env, table):
    """Return the time that a query takes into a sink that drops its rows."""
    types = table._j_table.getResolvedSchema().getColumnDataTypes()
    texts = []
    for number in range(types.size()):
        text = types.get(number).nullable().getLogicalType().asSerializableString()
        texts.append(f"c{number} {text.replace(' *ROWTIME*', '')}")
    env.execute_sql(f"CREATE TABLE dropped ({', '.join(texts)}) WITH ('connector' = 'blackhole')")
    begun = time.perf_counter()
    table.execute_insert("dropped").wait()
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query", choices=SQL)
    parser.add_argument("folder", type=Path)
    parser.add_argument("jars", type=Path)
    parser.add_argument("--rows", type=Path)
    arguments = parser.parse_args()
    env = environment(arguments.folder, arguments.jars)
    table = env.sql_query(SQL[arguments.query])
    if arguments.rows is None:
        print(json.dumps({"seconds": seconds_of(env, table)}))
        return
    with arguments.rows.open("w") as out:
        for row in rows_of(table):
            out.write(json.dumps(row) + "\n")
    print(json.dumps({"rows": str(arguments.rows)}))


if __name__ == "__main__":
    main()
