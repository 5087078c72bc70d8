"""The best sold item of each city, as it changes: SQL over a stream of Python.

    python examples/sql_over_streams.py

The stream becomes a table, a query counts and ranks, and its changes become a stream again.
"""

from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment

SALE = Types.ROW_NAMED(["city", "item", "amount"], [Types.STRING(), Types.STRING(), Types.INT()])
CITIES, ITEMS = ["Bonn", "Kyoto"], ["tea", "cake", "jam"]
SALES = [{"city": CITIES[n % 2], "item": ITEMS[n * n % 3], "amount": 1 + n % 5} for n in range(300)]

BEST = """
SELECT city, item, total FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY total DESC, item) AS place
  FROM (SELECT city, item, SUM(amount) AS total FROM sales GROUP BY city, item)
) WHERE place = 1
"""


def define(env):
    """Return the stream of changes of the best items: rows with their kinds."""
    tables = StreamTableEnvironment.create(env)
    tables.create_temporary_view("sales", tables.from_data_stream(env.from_collection(SALES, SALE)))
    return tables.to_changelog_stream(tables.sql_query(BEST))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("best items")
