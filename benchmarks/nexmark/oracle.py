"""The queries in DuckDB's SQL: every other program must have their results.

Times are milliseconds since the epoch, so that windows are arithmetic.  Where SQL would leave the
order of equal rows open, the query names the columns that decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

DAY = "strftime(make_timestamp(dateTime * 1000), '%Y-%m-%d')"
MINUTE = "strftime(make_timestamp(dateTime * 1000), '%H:%M')"
CHANNEL_ID = "regexp_extract(url, '[?&]channel_id=([^&]*)', 1)"
DOLLARS = "price * 0.908::DOUBLE"

WINNERS = """
WINNERS AS (
  SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bidTime, B.extra AS bidExtra
  FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  QUALIFY row_number() OVER (
    PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.bidder, B.extra
  ) = 1
)"""


def _ranks(counted: str = "*", distinct: str = "") -> str:
    """Return counts of all bids and of those below 10,000, below 1,000,000 and from there on."""
    conditions = (
        "true",
        "price < 10000",
        "price >= 10000 AND price < 1000000",
        "price >= 1000000",
    )
    return ", ".join(f"count({distinct}{counted}) FILTER (WHERE {c})" for c in conditions)


QUERIES = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": f"SELECT auction, bidder, {DOLLARS}, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        WITH {WINNERS}
        SELECT category, sum(price)::DOUBLE / count(*) FROM WINNERS GROUP BY category""",
    "q5": """
        WITH hops AS (
          SELECT auction, unnest(range(
            dateTime - dateTime % 2000 + 2000, dateTime - dateTime % 2000 + 12000, 2000
          )) AS ends FROM bid
        ), counts AS (SELECT auction, count(*) AS num, ends FROM hops GROUP BY auction, ends)
        SELECT auction, num, ends FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY ends)""",
    "q6": f"""
        WITH {WINNERS}
        SELECT seller, id, sum(price) OVER last::DOUBLE / count(*) OVER last FROM WINNERS
        WINDOW last AS (
          PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
        )""",
    "q7": """
        SELECT auction, price, bidder, dateTime, extra FROM bid
        QUALIFY price = max(price) OVER (PARTITION BY dateTime // 10000)""",
    "q8": """
        SELECT DISTINCT P.id, P.name, P.dateTime // 10000 * 10000
        FROM person P JOIN auction A
        ON P.id = A.seller AND P.dateTime // 10000 = A.dateTime // 10000""",
    "q9": f"""
        WITH {WINNERS}
        SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category,
          extra, auction, bidder, price, bidTime, bidExtra
        FROM WINNERS""",
    "q10": f"SELECT auction, bidder, price, dateTime, extra, {DAY}, {MINUTE} FROM bid",
    "q11": """
        WITH gaps AS (
          SELECT bidder, dateTime, dateTime - lag(dateTime) OVER (
            PARTITION BY bidder ORDER BY dateTime
          ) > 10000 AS begins FROM bid
        ), numbered AS (
          SELECT bidder, dateTime, count(*) FILTER (WHERE begins) OVER (
            PARTITION BY bidder ORDER BY dateTime
          ) AS session FROM gaps
        )
        SELECT bidder, count(*), min(dateTime), max(dateTime) + 10000
        FROM numbered GROUP BY bidder, session""",
    "q13": """
        SELECT auction, bidder, price, dateTime, 'side-' || (auction % 10000) FROM bid""",
    "q14": f"""
        SELECT auction, bidder, {DOLLARS} AS dollars,
          CASE WHEN dateTime // 3600000 % 24 BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN dateTime // 3600000 % 24 <= 6 OR dateTime // 3600000 % 24 >= 20 THEN 'nightTime'
            ELSE 'otherTime' END,
          dateTime, extra, length(extra) - length(replace(extra, 'c', ''))
        FROM bid WHERE dollars > 1000000 AND dollars < 50000000""",
    "q15": f"""
        SELECT {DAY} AS day, {_ranks()}, {_ranks("bidder", "DISTINCT ")},
          {_ranks("auction", "DISTINCT ")}
        FROM bid GROUP BY day""",
    "q16": f"""
        SELECT channel, {DAY} AS day, max({MINUTE}), {_ranks()},
          {_ranks("bidder", "DISTINCT ")}, {_ranks("auction", "DISTINCT ")}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, {DAY} AS day, {_ranks()}, min(price), max(price),
          sum(price)::DOUBLE / count(*), sum(price)::BIGINT
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (
          PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC, extra DESC
        ) = 1""",
    "q19": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (
          PARTITION BY auction ORDER BY price DESC, dateTime, bidder, extra
        ) <= 10""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra,
          A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller,
          A.category, A.extra
        FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel, CASE lower(channel)
          WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
          WHEN 'baidu' THEN '3' ELSE {CHANNEL_ID} END AS channelId
        FROM bid WHERE channelId <> ''""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
          split_part(url, '/', 6)
        FROM bid""",
    "q23": """
        SELECT B.auction, B.bidder, B.price, B.url, A.itemName, A.category, P.name, P.city
        FROM bid B JOIN auction A ON B.auction = A.id JOIN person P ON B.bidder = P.id""",
}


class Oracle:
    """DuckDB on one core over a folder of events."""

    def __init__(self, folder: Path) -> None:
        """Open the tables of a folder."""
        import duckdb

        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        for table in ("person", "auction", "bid"):
            is_json = any((folder / table).glob("*.json"))
            files = f"'{folder}/{table}/*.{'json' if is_json else 'parquet'}'"
            read = f"read_json({files})" if is_json else f"read_parquet({files})"
            self._database.execute(f"CREATE VIEW {table} AS SELECT * FROM {read}")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query's result."""
        return self._database.execute(QUERIES[query]).fetchall()

    def table(self, query: str) -> Any:
        """Return a query's result as a table of Arrow, which creates no Python objects."""
        return self._database.execute(QUERIES[query]).to_arrow_table()

    def close(self) -> None:
        """Forget the tables."""
        self._database.close()
