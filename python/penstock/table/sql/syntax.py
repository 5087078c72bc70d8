"""Examples of SQL statements, which the reference lists and a test parses."""

from __future__ import annotations

from typing import Final

SYNTAX: Final[dict[str, tuple[str, ...]]] = {
    "Queries": (
        "SELECT a, COUNT(*) FROM t WHERE b > 1 GROUP BY a HAVING COUNT(*) > 2",
        "SELECT a, b FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) <= 3",
        "WITH v AS (SELECT a FROM t) SELECT a FROM v ORDER BY a LIMIT 10",
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT a FROM t UNION ALL SELECT a FROM u",
        "SELECT * FROM TO_CHANGELOG(input => TABLE t, op => DESCRIPTOR(code), op_mapping => "
        "MAP['INSERT, UPDATE_AFTER', 'set', 'DELETE', 'remove'])",
        "SELECT * FROM FROM_CHANGELOG(input => TABLE t)",
    ),
    "Insertions": (
        "INSERT INTO t SELECT a, b FROM u",
        "INSERT INTO t (b, a) VALUES (1, 2)",
        "INSERT INTO t PARTITION (d = 'monday') SELECT a FROM u",
        "INSERT INTO t /*+ OPTIONS('sink.parallelism' = '2') */ SELECT a FROM u",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT a FROM v; INSERT INTO u SELECT a FROM v; "
        "END",
        "COMPILE PLAN '/plans/t.json' IF NOT EXISTS FOR INSERT INTO t SELECT a, b FROM u",
        "COMPILE AND EXECUTE PLAN '/plans/t.json' FOR STATEMENT SET BEGIN INSERT INTO t SELECT a "
        "FROM v; INSERT INTO u SELECT a FROM v; END",
        "EXECUTE PLAN '/plans/t.json'",
    ),
    "Tables": (
        "CREATE TABLE t (a INT COMMENT 'text', b AS a + 1, c TIMESTAMP(3) METADATA FROM "
        "'timestamp' VIRTUAL, WATERMARK FOR c AS c - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT "
        "ENFORCED) PARTITIONED BY (a) WITH ('connector' = 'kafka')",
        "CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT) WITH ('connector' = 'print')",
        "CREATE TABLE t (a INT) DISTRIBUTED BY HASH(a) INTO 4 BUCKETS WITH ('connector' = 'x')",
        "CREATE TABLE t WITH ('connector' = 'print') LIKE u (EXCLUDING OPTIONS)",
        "CREATE TABLE t WITH ('connector' = 'print') AS SELECT a FROM u",
        "CREATE TABLE t (b, a) WITH ('connector' = 'print') AS SELECT a, b FROM u",
        "CREATE OR REPLACE TABLE t WITH ('connector' = 'print') AS SELECT a FROM u",
        "REPLACE TABLE t WITH ('connector' = 'print') AS SELECT a FROM u",
        "ALTER TABLE t ADD (x INT FIRST, y INT AFTER a)",
        "ALTER TABLE t MODIFY WATERMARK FOR c AS c",
        "ALTER TABLE t DROP (x, y)",
        "ALTER TABLE t DROP PRIMARY KEY",
        "ALTER TABLE t DROP CONSTRAINT pk",
        "ALTER TABLE t DROP WATERMARK",
        "ALTER TABLE t RENAME a TO b",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t SET ('topic' = 'x')",
        "ALTER TABLE t RESET ('topic')",
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (d = 'monday')",
        "ALTER TABLE t DROP IF EXISTS PARTITION (d = 'monday')",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "DESCRIBE t",
    ),
    "Views": (
        "CREATE VIEW v (x, y) AS SELECT a, b FROM t",
        "CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT a FROM t",
        "ALTER VIEW v AS SELECT b FROM t",
        "ALTER VIEW v RENAME TO w",
        "DROP VIEW v",
    ),
    "Functions": (
        "CREATE FUNCTION f AS 'module.name' LANGUAGE PYTHON",
        "CREATE TEMPORARY SYSTEM FUNCTION f AS 'module.name' LANGUAGE PYTHON",
        "ALTER FUNCTION f AS 'module.other' LANGUAGE PYTHON",
        "DROP FUNCTION IF EXISTS f",
        "DESCRIBE FUNCTION f",
    ),
    "Catalogs and databases": (
        "CREATE CATALOG c WITH ('type' = 'generic_in_memory')",
        "USE CATALOG c",
        "DROP CATALOG c",
        "CREATE DATABASE IF NOT EXISTS c.d COMMENT 'text'",
        "USE c.d",
        "ALTER DATABASE d SET ('key' = 'value')",
        "DROP DATABASE d CASCADE",
    ),
    "Lists and plans": (
        "SHOW CATALOGS",
        "SHOW CURRENT CATALOG",
        "SHOW DATABASES",
        "SHOW CURRENT DATABASE",
        "SHOW TABLES FROM c.d LIKE 'a%'",
        "SHOW VIEWS",
        "SHOW PARTITIONS t PARTITION (d = 'monday')",
        "SHOW COLUMNS FROM t NOT LIKE 'a%'",
        "SHOW FUNCTIONS ILIKE 'A%'",
        "SHOW USER FUNCTIONS",
        "SHOW CREATE TABLE t",
        "SHOW CREATE VIEW v",
        "SHOW CREATE FUNCTION f",
        "SHOW CREATE CATALOG c",
        "SHOW FULL MODULES",
        "EXPLAIN SELECT a FROM t",
        "EXPLAIN CHANGELOG_MODE INSERT INTO t SELECT a FROM u",
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT a FROM u; END",
    ),
    "Options, in the shell": (
        "SET 'parallelism.default' = '4'",
        "SET",
        "RESET 'parallelism.default'",
        "RESET",
    ),
}
"""The syntax of statements, by topic."""
