"""Catalogs of PostgreSQL and Apache Iceberg: their tables exist without CREATE TABLE."""

import decimal

import pytest
from penstock.errors import JvmOnlyError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.catalog import HiveCatalog, JdbcCatalog
from penstock.table.exceptions import ValidationException
from support.postgres_server import PostgresServer


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def rows_of(tables, statement):
    with tables.execute_sql(statement).collect() as rows:
        return sorted(tuple(row) for row in rows)


@pytest.mark.server
def test_tables_of_postgres(tables):
    psycopg = pytest.importorskip("psycopg")
    server = PostgresServer()
    try:
        place = psycopg.conninfo.conninfo_to_dict(server.url)
        server.execute("CREATE SCHEMA sales")
        server.execute(
            "CREATE TABLE items (id INT PRIMARY KEY, price NUMERIC(10, 2), name VARCHAR(20), "
            "tags TEXT[])"
        )
        server.execute("CREATE TABLE sales.orders (id BIGINT, at_time TIMESTAMPTZ)")
        server.execute("CREATE TABLE odd (p POINT)")
        server.execute("INSERT INTO items VALUES (1, 2.50, 'tea', ARRAY['a', 'b'])")
        base = f"jdbc:postgresql:///?host={place['host']}"
        catalog = JdbcCatalog("shop", place["dbname"], place["user"], "none", base)
        tables.register_catalog("shop", catalog)
        tables.use_catalog("shop")
        assert place["dbname"] in tables.list_databases()
        assert tables.list_tables() == ["items", "odd", "sales.orders"]
        schema = tables.from_path("items").get_resolved_schema()
        assert [str(column.data_type) for column in schema.columns] == [
            "INT NOT NULL",
            "DECIMAL(10, 2)",
            "VARCHAR(20)",
            "ARRAY<STRING>",
        ]
        assert schema.get_primary_key_indexes() == [0]
        assert rows_of(tables, "SELECT * FROM items") == [
            (1, decimal.Decimal("2.50"), "tea", ["a", "b"])
        ]
        tables.execute_sql("INSERT INTO `sales.orders` VALUES (7, TO_TIMESTAMP_LTZ(0, 3))").wait()
        found = server.execute("SELECT id, extract(epoch FROM at_time)::int FROM sales.orders")
        assert found == [(7, 0)]
        with pytest.raises(ValidationException, match="nowhere"):
            tables.execute_sql("SELECT * FROM nowhere.items")
        with pytest.raises(ValidationException, match="type point of PostgreSQL"):
            tables.execute_sql("SELECT * FROM odd")
        with pytest.raises(Exception, match="cannot create table"):
            tables.execute_sql("CREATE TABLE made (id INT) WITH ('connector' = 'print')")
    finally:
        server.stop()


def test_tables_of_iceberg(tables, tmp_path):
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    create = (
        "CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'sql', "
        f"'uri' = 'sqlite:///{tmp_path / 'catalog.db'}', 'warehouse' = 'file://{tmp_path}')"
    )
    tables.execute_sql(create)
    tables.execute_sql("CREATE DATABASE lake.shop")
    tables.execute_sql("CREATE DATABASE IF NOT EXISTS lake.shop")
    tables.execute_sql("USE lake.shop")
    tables.execute_sql("CREATE TABLE items (id INT, name STRING)")
    tables.execute_sql("CREATE TABLE IF NOT EXISTS items (id INT, name STRING)")
    assert tables.list_tables() == ["items"]
    tables.execute_sql("INSERT INTO items VALUES (1, 'tea'), (2, 'cake')").wait()
    others = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    others.execute_sql(create)
    assert rows_of(others, "SELECT name FROM lake.shop.items WHERE id > 1") == [("cake",)]
    tables.execute_sql("DROP TABLE items")
    assert tables.list_tables() == []
    with pytest.raises(Exception, match="computed or metadata"):
        tables.execute_sql("CREATE TABLE made (id INT, twice AS id * 2)")


def test_catalogs_that_there_are_not(tables):
    with pytest.raises(ValidationException, match="generic_in_memory, iceberg, jdbc"):
        tables.execute_sql("CREATE CATALOG h WITH ('type' = 'hive')")
    with pytest.raises(ValidationException, match="Missing required options of catalog h"):
        tables.execute_sql("CREATE CATALOG h WITH ('type' = 'jdbc')")
    with pytest.raises(ValidationException, match="needs PostgreSQL"):
        JdbcCatalog("m", "d", "u", "p", "jdbc:mysql://h:3306")
    with pytest.raises(ValidationException, match="'catalog-impl' names a class of Java"):
        tables.execute_sql(
            "CREATE CATALOG h WITH ('type' = 'iceberg', 'catalog-impl' = 'com.example.C')"
        )
    with pytest.raises(JvmOnlyError, match="HiveCatalog"):
        HiveCatalog("h")
    assert tables.list_catalogs() == ["default_catalog"]
