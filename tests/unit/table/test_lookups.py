"""Lookups of rows by keys: the cache, ranges of scans, and statements for each database."""

import sqlite3

import pytest
from penstock.connectors.jdbc.connection import JdbcConnectionOptions
from penstock.connectors.jdbc.dialect import TableStatements
from penstock.table.connectors.jdbc.lookup import JdbcKeyLookup
from penstock.table.connectors.jdbc.scan import table_ranges
from penstock.table.connectors.lookup_cache import CacheOptions, LookupCache
from penstock.table.types import DataTypes


class Clock:
    now_ms = 0

    def __call__(self):
        return self.now_ms


def test_the_key_that_was_used_longest_ago_leaves():
    cache = LookupCache(CacheOptions(max_rows=2), Clock())
    cache.put(1, ["a"])
    cache.put(2, ["b"])
    assert cache.get(1) == ["a"]
    cache.put(3, ["c"])
    assert cache.get(2) is None
    assert [cache.get(1), cache.get(3)] == [["a"], ["c"]]
    assert (cache.hits, cache.misses, len(cache)) == (3, 1, 2)


def test_rows_grow_old_by_writing_and_by_use():
    clock = Clock()
    written = LookupCache(CacheOptions(after_write_ms=10), clock)
    used = LookupCache(CacheOptions(after_access_ms=10), clock)
    for cache in (written, used):
        cache.put(1, ["a"])
    for clock.now_ms in (6, 12):
        assert used.get(1) == ["a"]
    assert written.get(1) is None
    clock.now_ms = 22
    assert used.get(1) is None


@pytest.mark.parametrize("limit", ["after_write_ms", "after_access_ms"])
def test_expired_rows_of_keys_that_never_come_again_leave(limit):
    clock = Clock()
    cache = LookupCache(CacheOptions(**{limit: 10}), clock)
    for clock.now_ms in range(100):
        cache.put(clock.now_ms, ["a"])
        cache.get(clock.now_ms - 1)
    assert len(cache) <= 11
    assert cache.get(clock.now_ms) == ["a"]


def test_keys_without_rows_are_kept_unless_refused():
    for keeps in (True, False):
        cache = LookupCache(CacheOptions(keeps_missing=keeps), Clock())
        cache.put(1, [])
        assert (cache.get(1) == []) is keeps


def lookup(path, cache=None):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}")
    row_type = DataTypes.ROW(
        [DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())]
    )
    statements = TableStatements("sqlite", "t", ("id", "s"))
    return JdbcKeyLookup(builder.build(), statements, row_type, cache, 0)


def test_keys_are_asked_for_together_and_then_found_in_the_cache(tmp_path):
    connection = sqlite3.connect(tmp_path / "db")
    with connection:
        connection.execute("CREATE TABLE t (id INTEGER, s TEXT COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (1, 'b'), (2, 'A')")
    connection.close()
    table = lookup(tmp_path / "db", CacheOptions())
    try:
        for _ in range(2):
            found = table.lookup(["id"], [(1,), (2,), (3,)])
            assert found == {(1,): [(1, "a"), (1, "b")], (2,): [(2, "A")], (3,): []}
            assert table.queries == 1
        assert table.lookup(["id", "s"], [(1, "b")]) == {(1, "b"): [(1, "b")]}
        table.lookup(["id"], [(number,) for number in range(10, 260)])
        assert table.queries == 2 + 3
    finally:
        table.close()


def test_keys_that_the_database_holds_for_equal_get_the_same_rows(tmp_path):
    connection = sqlite3.connect(tmp_path / "db")
    with connection:
        connection.execute("CREATE TABLE t (id INTEGER, s TEXT COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
    connection.close()
    table = lookup(tmp_path / "db")
    try:
        assert table.lookup(["s"], [("A",), ("b",)]) == {("A",): [(1, "a")], ("b",): []}
        assert table.queries == 3
    finally:
        table.close()


def test_ranges_part_all_values():
    for lower, upper, number in [(0, 9, 3), (-5, 5, 4), (1, 2, 9), (7, 7, 1)]:
        ranges = table_ranges(lower, upper, number)
        values = [v for each in ranges for v in range(each.bounds[0], each.bounds[1] + 1)]
        assert values == list(range(lower, upper + 1))
        sizes = [each.bounds[1] - each.bounds[0] + 1 for each in ranges]
        assert len(ranges) == min(number, upper - lower + 1)
        assert max(sizes) - min(sizes) <= 1


def test_statements_of_each_database():
    lite = TableStatements.of_url("jdbc:sqlite:/tmp/x", "t", ["id", "name"])
    assert lite.upsert(["id"]) == (
        'INSERT INTO "t" ("id", "name") VALUES (?, ?) ON CONFLICT ("id") DO UPDATE SET '
        '"name" = EXCLUDED."name"'
    )
    assert lite.delete(["id", "name"]) == 'DELETE FROM "t" WHERE "id" = ? AND "name" = ?'
    assert lite.any_of(["id", "name"], 2) == (
        '("id" = ? AND "name" = ?) OR ("id" = ? AND "name" = ?)'
    )
    postgres = TableStatements.of_url("jdbc:postgresql://h/d", "shop.orders", ["userId", "user"])
    assert postgres.select(["userId", "user"]) == 'SELECT userId, "user" FROM "shop"."orders"'
    assert postgres.upsert(["userId", "user"]).endswith("DO NOTHING")
    mysql = TableStatements.of_url("jdbc:mysql://h/d", "t", ["id", "n"])
    assert mysql.upsert(["id"]).endswith("ON DUPLICATE KEY UPDATE `n` = VALUES(`n`)")
