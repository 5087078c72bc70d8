"""Statements in Flink's dialect become data; errors of other texts name the place."""

import re

import pytest

pytest.importorskip("sqlglot")

from penstock.table import types
from penstock.table.exceptions import SqlParserException
from penstock.table.sql import statements
from penstock.table.sql.parsing import (
    parse_expression,
    parse_query,
    parse_statement,
    parse_type,
    place_of,
)
from sqlglot import exp


def test_create_table_with_everything():
    made = parse_statement(
        """CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t (
            id INT NOT NULL COMMENT 'the id', n DECIMAL(5, 2), twice AS n * 2,
            ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
            CONSTRAINT mine PRIMARY KEY (id) NOT ENFORCED
        ) COMMENT 'all' PARTITIONED BY (id) WITH ('connector' = 'kafka', 'a' = 'it''s')"""
    )
    assert isinstance(made, statements.CreateTable)
    assert made.path == ("c", "d", "t")
    assert [c.name for c in made.columns] == ["id", "n", "twice", "ts"]
    assert made.columns[0].type == types.IntType(nullable=False)
    assert made.columns[0].comment == "the id"
    assert made.columns[2].text == "n * 2"
    assert made.columns[3].metadata_key == "timestamp"
    assert made.columns[3].is_virtual
    assert made.watermarks[0].text == "ts - INTERVAL '5' SECOND"
    assert made.primary_key == ("id",)
    assert not made.is_key_enforced
    assert made.partition_keys == ("id",)
    assert made.options == {"connector": "kafka", "a": "it's"}
    assert made.is_temporary
    assert made.if_not_exists


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("STRING", "STRING"),
        ("VARCHAR(3) NOT NULL", "VARCHAR(3) NOT NULL"),
        ("VARCHAR", "STRING"),
        ("VARBINARY", "BYTES"),
        ("CHAR", "CHAR(1)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        ("ARRAY<MAP<STRING, INT NOT NULL>>", "ARRAY<MAP<STRING, INT NOT NULL>>"),
        ("ROW<a INT, b ROW<c STRING>>", "ROW<`a` INT, `b` ROW<`c` STRING>>"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INTERVAL DAY TO SECOND", "INTERVAL DAY(2) TO SECOND(6)"),
    ],
)
def test_types(text, expected):
    assert str(parse_type(text)) == expected


def test_hints_are_options_of_their_table():
    tree = parse_query("SELECT * FROM t /*+ OPTIONS('a' = 'b') */ AS x")
    table = tree.args["from_"].this
    assert table.meta["options"] == {"a": "b"}
    assert table.alias == "x"


def test_insert_with_columns_and_partition():
    made = parse_statement("INSERT OVERWRITE t PARTITION (d = 'x') (a, b) SELECT 1, 2")
    assert isinstance(made, statements.Insert)
    assert made.is_overwrite
    assert made.columns == ("a", "b")
    assert list(made.partition) == ["d"]


def test_statement_sets():
    made = parse_statement(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END"
    )
    assert isinstance(made, statements.StatementSetBlock)
    assert [i.path for i in made.statements] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT (1", "line 1"),
        ("SELEKT 1", "SELEKT"),
        ("SELECT 1;\nSELECT 2", ";"),
        ("SELECT 1 AS value", "reserved"),
        ("SELECT 1 WHERE TRUE", '"WHERE" without FROM'),
        ("SELECT 1 AS count", "write `count`"),
        (
            "CREATE TABLE t (a INT, date DATE)",
            "write `date` to use it as a name at line 1, column 24",
        ),
        ("SHOW COLUMNS FROM user", "reserved"),
        ("", "EOF"),
        ("CREATE TABLE t (a NUMBER_OF_THINGS)", "NUMBER_OF_THINGS"),
        ("CREATE TABLE t (a INT b)", "Encountered"),
        ("SELECT 1\nFROM t WHERE +", "line 2"),
        ("SELECT a + FROM t", "an expression is missing at line 1, column 12"),
        ("SELECT a FROM t WHERE a == 1", "an expression is missing at line 1, column 26"),
        ("SELECT a FROM t WHERE a <=> 1", "an expression is missing at line 1, column 27"),
        ("SELECT a FROM t WHERE a != 1", '"!" at line 1, column 25'),
        ("SELECT a FROM t LIMIT 1, 2", "write LIMIT count OFFSET start"),
        ("ALTER VIEW v AS SELECT 1 AS one", "reserved"),
        ("SELECT a, FROM t", "missing after the comma at line 1, column 11"),
        ("SELECT COUNT(*) FROM t GROUP BY", "GROUP BY needs an expression"),
        ("SELECT 1 FROM t JOIN", "a table was expected"),
        ("SELECT /* 1", "EOF"),
        ("SELECT", "without columns"),
        ("SELECT a FROM (SELECT FROM t)", "without columns"),
    ],
)
def test_refusals_name_the_place(text, words):
    with pytest.raises(SqlParserException, match="Encountered") as caught:
        parse_statement(text)
    assert words in str(caught.value)


def test_a_sample_is_written_as_a_condition():
    with pytest.raises(SqlParserException, match=r"not supported, write WHERE RAND\(\) < 0\.1"):
        parse_query("SELECT a FROM s TABLESAMPLE BERNOULLI(10)")


def test_a_table_is_a_query():
    assert parse_query("TABLE c.t UNION TABLE u") == parse_query(
        "SELECT * FROM c.t UNION SELECT * FROM u"
    )


def test_a_sign_after_an_exponent_is_an_operator():
    """sqlglot 30 reads ``1e0+1.5`` as one number; places after it stay right."""
    text = "SELECT 1e0+1.5e-2-3E1-x,\n y"
    tree = parse_query(text)
    assert tree == parse_query("SELECT 1e0 + 1.5e-2 - 3E1 - x, y")
    assert {c.name: place_of(c) for c in tree.find_all(exp.Column)} == {"x": (1, 23), "y": (2, 2)}


@pytest.mark.parametrize("text", ["SELECT 1,\n 'abc", "SELECT 1,\n `abc FROM t"])
def test_open_quotes_name_their_place(text):
    with pytest.raises(SqlParserException, match=r"line 2, column 2: Missing ['`]"):
        parse_statement(text)


def test_quoted_reserved_words_are_names():
    parse_statement("SELECT 1 AS `value`")
    parse_statement("CREATE TABLE `user` (`date` DATE) WITH ('connector' = 'print')")
    # Fields of types outside statements need no quotes.
    assert parse_type("ROW<`date` DATE>") == parse_type("ROW<date DATE>")


def test_a_query_is_no_other_statement():
    with pytest.raises(SqlParserException, match="query"):
        parse_query("INSERT INTO t VALUES (1)")


def test_expressions_stand_alone():
    assert parse_expression("a + INTERVAL '1' DAY") is not None
    with pytest.raises(SqlParserException, match="Encountered"):
        parse_expression("a b")


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("SELECT * EXCEPT (a) FROM s", "* EXCEPT"),
        ("SELECT s.* EXCEPT (a) FROM s", "* EXCEPT"),
        ("SELECT DISTINCT ON (a) b FROM s", "DISTINCT ON"),
        ("SELECT a INTO b FROM s", "INTO"),
        ("SELECT a FROM s GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
        ("SELECT COUNT(*) FROM s GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT a FROM s SORT BY a", "SORT"),
        ("SELECT a FROM s LIMIT 2 BY a", "LIMIT ... BY"),
        ("SELECT a FROM s LIMIT 10 PERCENT", "LIMIT with PERCENT or WITH TIES"),
        ("SELECT a FROM s FETCH FIRST 3 ROWS WITH TIES", "WITH TIES"),
        ("SELECT a FROM s FOR UPDATE", "FOR UPDATE"),
        ("SELECT a FROM s LATERAL VIEW explode(x) t AS y", "LATERAL VIEW"),
        ("SELECT a FROM s LEFT ANTI JOIN u ON s.a = u.a", "ANTI JOIN"),
        ("SELECT a FROM s TABLESAMPLE BERNOULLI(10)", "TABLESAMPLE"),
        ("SELECT * FROM s PIVOT (SUM(a) FOR b IN (1, 2))", "PIVOT"),
        ("SELECT a FROM s UNION BY NAME SELECT a FROM u", "BY NAME"),
        ("INSERT INTO t SELECT * RENAME (a AS b) FROM s", "* RENAME"),
        ("CREATE VIEW v AS SELECT a FROM (SELECT a FROM s QUALIFY TRUE CLUSTER BY a)", "CLUSTER"),
    ],
)
def test_clauses_of_other_dialects_are_refused(query, clause):
    with pytest.raises(SqlParserException, match=re.escape(f'Encountered "{clause}": the clause')):
        parse_statement(query)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (a INT", r"\"<EOF>\": '\)' was expected at line 1, column 22"),
        ("SELECT CAST(1 AS", r"\"<EOF>\": a type was expected at line 1, column 17"),
        ("CREATE TABLE t LIKE u (EXCLUDING", r"a part of the table was expected"),
        ("CREATE TABLE t LIKE u (EXCLUDING)", r"\"\)\": a part of the table was expected"),
        ("CREATE TABLE t (a INTT)", r"\"INTT\" \(did you mean INT\?\) at line 1, column 19"),
        ("CREATE TABLE t (a VARCHA(3))", r"\(did you mean VARCHAR\?\)"),
        ("CREATE FUNCTION f AS 'a.b' LANGUAGE", r"a language was expected"),
        ("CREATE TABLE t (a INTERVAL DAY TO", r"a unit of time was expected"),
        ("SET 'a' 'b'", r"Encountered \"'b'\": '=' was expected"),
        ("SELEC 1", r"\(did you mean SELECT\?\) at line 1, column 1"),
        ("SHOW TABLE", r"\(did you mean SHOW TABLES\?\)"),
        ("DROP TABEL t", r"\(did you mean DROP TABLE\?\)"),
        ("CREATE x", r"\(TABLE, VIEW, FUNCTION, DATABASE or CATALOG was expected\)"),
    ],
)
def test_the_end_of_a_text_and_misspelt_words_are_named(text, message):
    with pytest.raises(SqlParserException, match=message):
        parse_statement(text)
