"""A bare NULL is refused where Flink refuses it: where nothing gives it a type."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table.exceptions import ValidationException
from unit.table.planning import plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT NULL",
        "SELECT (NULL) AS x, id FROM orders",
        "VALUES (1, NULL)",
        "SELECT id FROM orders UNION ALL SELECT NULL",
        "SELECT 1 + NULL",
        "SELECT NULL || 'a'",
        "SELECT NOT NULL",
        "SELECT -NULL",
        "SELECT TRUE AND NULL",
        "SELECT NULL IS TRUE",
        "SELECT 'a' LIKE NULL",
        "SELECT ROW(1, NULL)",
        "SELECT ARRAY[1][NULL]",
        "SELECT MAP[NULL, 1]",
        "SELECT UPPER(NULL)",
        "SELECT SUBSTRING('abc' FROM NULL)",
        "SELECT IF(TRUE, NULL, 1)",
        "SELECT CONCAT_WS(',', NULL, 'a')",
        "SELECT ARRAY_CONTAINS(NULL, 1)",
        "SELECT ELT(NULL, 'a')",
        "SELECT NULLIF(NULL, 1)",
        "SELECT COUNT(NULL) FROM orders",
        "SELECT COUNT(DISTINCT NULL) FROM orders",
        "SELECT LAG(n, 1, NULL) OVER (ORDER BY ts) FROM orders",
        "SELECT MAX(n) FROM orders GROUP BY NULL",
    ],
)
def test_a_bare_null_without_a_type_is_refused(sql):
    with pytest.raises(ValidationException, match=r"Illegal use of 'NULL'.*CAST"):
        plan(sql)


def test_a_case_needs_a_result_with_a_type():
    with pytest.raises(ValidationException, match="must be non-NULL"):
        plan("SELECT CASE WHEN TRUE THEN NULL END")


@pytest.mark.parametrize(
    "value",
    [
        "NULL IS NULL",
        "NULL = 1",
        "(1, NULL) = (id, n)",
        "n IS DISTINCT FROM NULL",
        "n BETWEEN NULL AND 2",
        "n IN (1, NULL)",
        "NULL NOT IN (1, 2)",
        "CASE WHEN NULL THEN NULL ELSE 1 END",
        "CASE n WHEN NULL THEN 1 ELSE 2 END",
        "CAST(NULL AS INT)",
        "TRY_CAST(NULL AS INT)",
        "COALESCE(NULL, n)",
        "NULLIF(n, NULL)",
        "ARRAY[1, NULL]",
        "MAP['a', NULL]",
        "GREATEST(n, NULL)",
        "ARRAY_APPEND(ARRAY[1], NULL)",
        "ELT(1, 'a', NULL)",
        "JSON_OBJECT(KEY 'a' VALUE NULL)",
    ],
)
def test_a_bare_null_takes_the_type_of_its_place(value):
    plan(f"SELECT {value} AS x FROM orders WHERE NULL")
