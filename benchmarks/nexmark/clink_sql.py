"""The queries in the SQL of clink (`pyclink`), a native streaming engine: a peer.

    PYTHON benchmarks/nexmark/clink_sql.py QUERY FOLDER [--rows FILE]

FOLDER is one that `lower_case` wrote: clink's names are in lower case.  Prints the seconds of the
job as JSON; with ``--rows`` writes the rows of the result instead, a JSON list on each line.
Parallelism 2, into a sink that drops rows.
"""

import argparse
import collections
import json
import os
import sys
import time
from pathlib import Path

PARALLELISM = 2

COLUMNS = {
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, "
    "datetime BIGINT, extra VARCHAR",
    "auction": "id BIGINT, itemname VARCHAR, description VARCHAR, initialbid BIGINT, "
    "reserve BIGINT, datetime BIGINT, expires BIGINT, seller BIGINT, category BIGINT, "
    "extra VARCHAR",
    "person": "id BIGINT, name VARCHAR, emailaddress VARCHAR, creditcard VARCHAR, city VARCHAR, "
    "state VARCHAR, datetime BIGINT, extra VARCHAR",
}

BID = "auction, bidder, price, channel, url, datetime, extra"
BID_TYPES = COLUMNS["bid"]
SHORT_TYPES = "auction BIGINT, bidder BIGINT, price BIGINT, datetime BIGINT, extra VARCHAR"
DAY = "DATE_FORMAT(datetime, 'yyyy-MM-dd')"
RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
HOPS = (
    "SELECT auction, COUNT(*) AS num, window_start AS ws, window_end AS we FROM bid "
    "GROUP BY HOP(datetime, INTERVAL '10' SECOND, INTERVAL '2' SECOND), auction"
)
# A join names its columns after the tables.
PAIR = (
    "A_id AS id, A_itemname AS itemname, A_description AS description, "
    "A_initialbid AS initialbid, A_reserve AS reserve, A_datetime AS begins, "
    "A_expires AS expires, A_seller AS seller, A_category AS category, A_extra AS itemextra"
)
PAIR_TYPES = (
    "id BIGINT, itemname VARCHAR, description VARCHAR, initialbid BIGINT, reserve BIGINT, "
    "begins BIGINT, expires BIGINT, seller BIGINT, category BIGINT, itemextra VARCHAR"
)
BIDS_IN_TIME = (
    "auction AS A JOIN bid AS B ON A.id = B.auction "
    "WHERE B_datetime >= A_datetime AND B_datetime <= A_expires"
)


def _ranked(then):
    """Return, for a value, a column for each rank of price, null (or 0) outside of it."""
    otherwise = " ELSE 0" if then == "1" else ""
    name = "rank" if then == "1" else then
    return "".join(
        f", CASE WHEN {rank} THEN {then}{otherwise} END AS {name}{number}"
        for number, rank in enumerate(RANKS, 1)
    )


COUNTS = "COUNT(*) AS bids0, SUM(rank1) AS bids1, SUM(rank2) AS bids2, SUM(rank3) AS bids3"
COUNT_TYPES = "bids0 BIGINT, bids1 BIGINT, bids2 BIGINT, bids3 BIGINT"
DISTINCT = ", ".join(
    f"COUNT(DISTINCT {name}{number or ''}) AS {name}s{number}"
    for name in ("bidder", "auction")
    for number in range(4)
)
DISTINCT_TYPES = ", ".join(
    f"{name}s{number} BIGINT" for name in ("bidder", "auction") for number in range(4)
)
STATISTICS = f"bidder, auction{_ranked('1')}{_ranked('bidder')}{_ranked('auction')}"

SQL = {
    "q0": (SHORT_TYPES, "SELECT auction, bidder, price, datetime, extra FROM bid"),
    "q1": (
        SHORT_TYPES.replace("price BIGINT", "dollars DECIMAL(18, 3)"),
        "SELECT auction, bidder, price * 0.908 AS dollars, datetime, extra FROM bid",
    ),
    "q2": (
        "auction BIGINT, price BIGINT",
        "SELECT auction, price FROM ("
        "SELECT auction, price, mod(auction, 123) AS m FROM bid) AS t WHERE m = 0",
    ),
    "q3": (
        "name VARCHAR, city VARCHAR, state VARCHAR, id BIGINT",
        "SELECT P_name AS name, P_city AS city, P_state AS state, A_id AS id FROM auction AS A "
        "JOIN person AS P ON A.seller = P.id "
        "WHERE A_category = 10 AND P_state IN ('OR', 'ID', 'CA')",
    ),
    "q4": (
        "category BIGINT, final DOUBLE",
        "SELECT category, AVG(most) AS final FROM (SELECT id, category, MAX(price) AS most FROM ("
        f"SELECT A_id AS id, A_category AS category, B_price AS price FROM {BIDS_IN_TIME}"
        ") AS p GROUP BY id, category) AS m GROUP BY category",
    ),
    "q5": (
        "auction BIGINT, num BIGINT, we BIGINT",
        f"SELECT D_auction AS auction, D_num AS num, D_we AS we FROM ({HOPS}) AS D JOIN ("
        f"SELECT ws, we, MAX(num) AS most FROM ({HOPS}) AS E GROUP BY ws, we"
        ") AS M ON D.ws = M.ws WHERE D_we = M_we AND D_num = M_most",
    ),
    "q7": (
        SHORT_TYPES.replace("bidder BIGINT, price BIGINT", "price BIGINT, bidder BIGINT"),
        "SELECT B_auction AS auction, B_price AS price, B_bidder AS bidder, "
        "B_datetime AS datetime, B_extra AS extra FROM bid AS B JOIN ("
        "SELECT MAX(price) AS most, window_start AS ws, window_end AS we FROM bid "
        "GROUP BY TUMBLE(datetime, INTERVAL '10' SECOND)) AS M ON B.price = M.most "
        "WHERE B_datetime >= M_ws AND B_datetime < M_we",
    ),
    "q8": (
        "id BIGINT, name VARCHAR, ws BIGINT",
        "SELECT P_id AS id, P_name AS name, P_ws AS ws FROM ("
        "SELECT id, name, COUNT(*) AS num, window_start AS ws, window_end AS we "
        "FROM person GROUP BY TUMBLE(datetime, INTERVAL '10' SECOND), id, name) AS P JOIN ("
        "SELECT seller, COUNT(*) AS num, window_start AS ws, window_end AS we FROM auction "
        "GROUP BY TUMBLE(datetime, INTERVAL '10' SECOND), seller) AS A ON P.id = A.seller "
        "WHERE P_ws = A_ws AND P_we = A_we",
    ),
    "q9": (
        f"{PAIR_TYPES}, auction BIGINT, bidder BIGINT, price BIGINT, bidtime BIGINT, "
        "bidextra VARCHAR",
        "SELECT id, itemname, description, initialbid, reserve, begins, expires, seller, "
        "category, itemextra, auction, bidder, price, bidtime, bidextra FROM ("
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY id "
        "ORDER BY price DESC, bidtime, bidder, bidextra) AS place FROM ("
        f"SELECT {PAIR}, B_auction AS auction, B_bidder AS bidder, B_price AS price, "
        f"B_datetime AS bidtime, B_extra AS bidextra FROM {BIDS_IN_TIME}"
        ") AS p) AS t WHERE place <= 1",
    ),
    "q10": (
        f"{SHORT_TYPES}, day VARCHAR, minute VARCHAR",
        f"SELECT auction, bidder, price, datetime, extra, {DAY} AS day, "
        "DATE_FORMAT(datetime, 'HH:mm') AS minute FROM bid",
    ),
    "q11": (
        "bidder BIGINT, num BIGINT, ws BIGINT, we BIGINT",
        "SELECT bidder, COUNT(*) AS num, MIN(datetime) AS ws, window_end AS we FROM bid "
        "GROUP BY SESSION(datetime, INTERVAL '10' SECOND), bidder",
    ),
    "q14": (
        "auction BIGINT, bidder BIGINT, dollars DECIMAL(18, 3), part VARCHAR, datetime BIGINT, "
        "extra VARCHAR, num BIGINT",
        "SELECT auction, bidder, dollars, CASE WHEN hour >= 8 AND hour <= 18 THEN 'dayTime' "
        "WHEN hour <= 6 OR hour >= 20 THEN 'nightTime' ELSE 'otherTime' END AS part, datetime, "
        "extra, char_length(extra) - char_length(replace(extra, 'c', '')) AS num FROM ("
        "SELECT auction, bidder, price * 0.908 AS dollars, EXTRACT(HOUR FROM datetime) AS hour, "
        "datetime, extra FROM bid) AS t WHERE dollars > 1000000 AND dollars < 50000000",
    ),
    "q15": (
        f"day VARCHAR, {COUNT_TYPES}, {DISTINCT_TYPES}",
        f"SELECT day, {COUNTS}, {DISTINCT} FROM (SELECT {DAY} AS day, {STATISTICS} FROM bid"
        ") AS t GROUP BY day",
    ),
    "q16": (
        f"channel VARCHAR, day VARCHAR, last VARCHAR, {COUNT_TYPES}, {DISTINCT_TYPES}",
        f"SELECT channel, day, MAX(minute) AS last, {COUNTS}, {DISTINCT} FROM (SELECT channel, "
        f"{DAY} AS day, DATE_FORMAT(datetime, 'HH:mm') AS minute, {STATISTICS} FROM bid"
        ") AS t GROUP BY channel, day",
    ),
    "q17": (
        f"auction BIGINT, day VARCHAR, {COUNT_TYPES}, least BIGINT, most BIGINT, mean DOUBLE, "
        "total BIGINT",
        f"SELECT auction, day, {COUNTS}, MIN(price) AS least, MAX(price) AS most, "
        "AVG(price) AS mean, SUM(price) AS total FROM ("
        f"SELECT auction, {DAY} AS day, price{_ranked('1')} FROM bid) AS t GROUP BY auction, day",
    ),
    "q18": (
        BID_TYPES,
        f"SELECT {BID} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction, bidder "
        "ORDER BY datetime DESC, price DESC, extra DESC) AS place FROM bid) AS t WHERE place <= 1",
    ),
    "q19": (
        BID_TYPES,
        f"SELECT {BID} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY price DESC, datetime, bidder, extra) AS place FROM bid) AS t WHERE place <= 10",
    ),
    "q20": (
        f"{BID_TYPES}, {PAIR_TYPES.removeprefix('id BIGINT, ')}",
        "SELECT B_auction AS auction, B_bidder AS bidder, B_price AS price, "
        "B_channel AS channel, B_url AS url, B_datetime AS datetime, B_extra AS extra, "
        f"{PAIR.removeprefix('A_id AS id, ')} "
        "FROM bid AS B JOIN auction AS A ON B.auction = A.id WHERE A_category = 10",
    ),
    "q21": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, channelid VARCHAR",
        "SELECT auction, bidder, price, channel, channelid FROM ("
        "SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0' "
        "WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2' "
        "WHEN lower(channel) = 'baidu' THEN '3' "
        "ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channelid FROM bid"
        ") AS t WHERE channelid <> ''",
    ),
    "q22": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, part1 VARCHAR, "
        "part2 VARCHAR, part3 VARCHAR",
        "SELECT auction, bidder, price, channel, split_index(url, '/', 3) AS part1, "
        "split_index(url, '/', 4) AS part2, split_index(url, '/', 5) AS part3 FROM bid",
    ),
    "q23": (
        "auction BIGINT, bidder BIGINT, price BIGINT, url VARCHAR, itemname VARCHAR, "
        "category BIGINT, name VARCHAR, city VARCHAR",
        "SELECT X_auction AS auction, X_bidder AS bidder, X_price AS price, X_url AS url, "
        "X_itemname AS itemname, X_category AS category, P_name AS name, P_city AS city FROM ("
        "SELECT B_auction AS auction, B_bidder AS bidder, B_price AS price, B_url AS url, "
        "A_itemname AS itemname, A_category AS category FROM bid AS B "
        "JOIN auction AS A ON B.auction = A.id) AS X JOIN person AS P ON X.bidder = P.id",
    ),
}
"""By query, the columns of its result and the statement; without q6 and q13, as for Flink."""

CHANGING = {"q4", "q5", "q9", "q15", "q16", "q17", "q18", "q19"}
"""Their results change, so that each row has its kind first."""


def lower_case(folder):
    """Write the tables of a folder with names in lower case beside them; return their folder."""
    import pyarrow.dataset
    from pyarrow import parquet

    out = folder / "lower_case"
    for table in COLUMNS:
        path = out / table / "part.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            read = pyarrow.dataset.dataset(folder / table).to_table()
            names = [name.lower() for name in read.column_names]
            parquet.write_table(read.rename_columns(names), path)
    return out


def remaining(changes):
    """Return the rows that remain after all changes."""
    counts = collections.Counter()
    for kind, *row in changes:
        counts[tuple(row)] += -1 if kind in {"delete", "update_before"} else 1
    return counts.elements()


def main():
    import pyclink

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query", choices=SQL)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=Path)
    arguments = parser.parse_args()
    columns, query = SQL[arguments.query]
    tables = "".join(
        f"CREATE TABLE {name} ({types}) WITH (connector='parquet', format='json', "
        f"prefix='{arguments.folder.resolve()}/{name}', event_time_column='datetime', "
        "watermark_lag_ms='0');"
        for name, types in COLUMNS.items()
    )
    sink = "connector='collect'" if arguments.rows else "connector='blackhole', format='json'"
    if arguments.query in CHANGING:
        sink += ", changelog='true'"
    engine = pyclink.Engine(parallelism=PARALLELISM)
    begun = time.perf_counter()
    engine.execute(f"{tables}CREATE TABLE dropped ({columns}) WITH ({sink});")
    engine.execute(f"INSERT INTO dropped {query}")
    if arguments.rows is None:
        engine.await_all()
        print(json.dumps({"seconds": time.perf_counter() - begun}))
    else:
        found = engine.collect("dropped").read_all()
        engine.await_all()
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        if arguments.query in CHANGING:
            rows = remaining(rows)
        with arguments.rows.open("w") as out:
            for row in rows:
                out.write(json.dumps(row, default=float) + "\n")
        print(json.dumps({"rows": str(arguments.rows), "columns": found.column_names}))
    # Its threads do not end with the job.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
