"""SHOW CREATE VIEW prints the query as Flink expands it; the texts are Flink 2.3's."""

import pytest
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf, udtf

O = "FROM `default_catalog`.`default_database`.`o` AS `o`"  # noqa: E741
P = "FROM `default_catalog`.`default_database`.`p` AS `p`"
STAR = "SELECT `o`.`id`, `o`.`name`, `o`.`ts`, `o`.`arr`, `o`.`r`"

EXPANDED = {
    "SELECT * FROM o": f"{STAR}\n{O}",
    "SELECT o.* FROM default_database.o": f"{STAR}\n{O}",
    "SELECT id + 1, id*2 AS dbl FROM o WHERE id > 3 AND name <> 'x''y' OR NOT (id = 1)": (
        f"SELECT `o`.`id` + 1, `o`.`id` * 2 AS `dbl`\n{O}\n"
        "WHERE `o`.`id` > 3 AND `o`.`name` <> 'x''y' OR NOT `o`.`id` = 1"
    ),
    "SELECT name, COUNT(*) c, COUNT(DISTINCT id) d FROM o GROUP BY name HAVING COUNT(*) > 1": (
        f"SELECT `o`.`name`, COUNT(*) AS `c`, COUNT(DISTINCT `o`.`id`) AS `d`\n{O}\n"
        "GROUP BY `o`.`name`\nHAVING COUNT(*) > 1"
    ),
    "SELECT q.i, p.`desc` FROM (SELECT id i FROM o WHERE id < 3) q LEFT JOIN p ON q.i = p.id": (
        f"SELECT `q`.`i`, `p`.`desc`\nFROM (SELECT `o`.`id` AS `i`\n{O}\n"
        f"WHERE `o`.`id` < 3) AS `q`\nLEFT JOIN {P[5:]} ON `q`.`i` = `p`.`id`"
    ),
    "SELECT a.id FROM o a, p b WHERE a.id = b.id": (
        f"SELECT `a`.`id`\n{O[:-3]}`a`,\n{P[5:-3]}`b`\nWHERE `a`.`id` = `b`.`id`"
    ),
    "SELECT id FROM o UNION ALL SELECT id FROM p": (
        f"SELECT `o`.`id`\n{O}\nUNION ALL\nSELECT `p`.`id`\n{P}"
    ),
    "SELECT id AS k FROM o ORDER BY k DESC, name LIMIT 5 OFFSET 2": (
        f"SELECT `o`.`id` AS `k`\n{O}\nORDER BY `k` DESC, `o`.`name`\nOFFSET 2 ROWS\n"
        "FETCH NEXT 5 ROWS ONLY"
    ),
    "SELECT CASE id WHEN 1 THEN 2 END k, CAST(id AS INT), CAST(arr AS ARRAY<BIGINT>) FROM o": (
        "SELECT CASE WHEN `o`.`id` = 1 THEN 2 ELSE NULL END AS `k`, CAST(`o`.`id` AS INTEGER), "
        f"CAST(`o`.`arr` AS ARRAY< BIGINT >)\n{O}"
    ),
    "SELECT SUBSTRING(name FROM 1 FOR 2), TRIM(name), GREATEST(id, 1), Shout(name), half(id) "
    "FROM o": (
        "SELECT SUBSTRING(`o`.`name`, 1, 2), TRIM(BOTH ' ' FROM `o`.`name`), "
        "`GREATEST`(`o`.`id`, 1), `shout`(`o`.`name`), "
        f"`default_catalog`.`default_database`.`half`(`o`.`id`)\n{O}"
    ),
    "SELECT window_end, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' "
    "MINUTES)) GROUP BY window_end": (
        f"SELECT `EXPR$0`.`window_end`, COUNT(*) AS `c`\nFROM TABLE(TUMBLE(({STAR}\n{O}), "
        "DESCRIPTOR(`ts`), INTERVAL '1' MINUTE)) AS `EXPR$0`\nGROUP BY `EXPR$0`.`window_end`"
    ),
    "SELECT COUNT(*) FROM o GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)": (
        f"SELECT COUNT(*)\n{O}\nGROUP BY $TUMBLE(`o`.`ts`, INTERVAL '1' HOUR)"
    ),
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY name ORDER BY ts DESC) AS rn FROM o": (
        "SELECT `o`.`id`, ROW_NUMBER() OVER (PARTITION BY `o`.`name` ORDER BY `o`.`ts` DESC) "
        f"AS `rn`\n{O}"
    ),
    "SELECT COUNT(id) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM o": (
        "SELECT COUNT(`o`.`id`) OVER (ORDER BY `o`.`ts` ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        f"\n{O}"
    ),
    "WITH w AS (SELECT id FROM o), x (k) AS (SELECT id FROM w) SELECT k FROM x": (
        f"WITH `w` AS (SELECT `o`.`id`\n{O}), `x` (`k`) AS (SELECT `w`.`id`\nFROM `w` AS `w`) "
        "SELECT `x`.`k`\nFROM `x` AS `x`"
    ),
    "SELECT u.x, arr[1], r.y, o.r.y FROM o CROSS JOIN UNNEST(arr) AS u(x)": (
        f"SELECT `u`.`x`, `o`.`arr`[1], `o`.`r`.`y`, `o`.`r`.`y`\n{O}\n"
        "CROSS JOIN UNNEST(`o`.`arr`) AS `u` (`x`)"
    ),
    "SELECT T.w FROM o LEFT JOIN LATERAL TABLE(parts(name)) AS T(w) ON TRUE": (
        f"SELECT `T`.`w`\n{O}\nLEFT JOIN LATERAL TABLE("
        "`default_catalog`.`default_database`.`parts`(`name`)) AS `T` (`w`) ON TRUE"
    ),
    "SELECT id FROM o WHERE name LIKE 'a%' AND id BETWEEN 1 AND 5 AND name IS NULL": (
        f"SELECT `o`.`id`\n{O}\nWHERE `o`.`name` LIKE 'a%' AND `o`.`id` BETWEEN ASYMMETRIC 1 AND 5"
        " AND `o`.`name` IS NULL"
    ),
    "SELECT id FROM o WHERE (id IS NOT NULL) = TRUE AND (id > 2 OR id NOT IN (1, 2))": (
        f"SELECT `o`.`id`\n{O}\n"
        "WHERE (`o`.`id` IS NOT NULL) = TRUE AND (`o`.`id` > 2 OR `o`.`id` NOT IN (1, 2))"
    ),
    "SELECT (SELECT MAX(id) FROM p) m FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.id = o.id)": (
        f"SELECT (((SELECT MAX(`p`.`id`)\n{P}))) AS `m`\n{O}\n"
        f"WHERE EXISTS (SELECT 1\n{P}\nWHERE `p`.`id` = `o`.`id`)"
    ),
    "SELECT (SELECT MAX(p.id) FROM p WHERE p.id = o.id) m FROM o WHERE id > 1": (
        f"SELECT (((SELECT MAX(`p`.`id`)\n{P}\nWHERE `p`.`id` = `o`.`id`))) AS `m`\n{O}\n"
        "WHERE `o`.`id` > 1"
    ),
    "SELECT * FROM (VALUES (1, 'é')) AS v(x, y)": (
        "SELECT `v`.`x`, `v`.`y`\nFROM (VALUES ROW(1, u&'\\00e9')) AS `v` (`x`, `y`)"
    ),
    "SELECT id - (id - 1), id - (-id), (id + 1) * 2 FROM o": (
        f"SELECT `o`.`id` - (`o`.`id` - 1), `o`.`id` - - `o`.`id`, (`o`.`id` + 1) * 2\n{O}"
    ),
    "SELECT CURRENT_DATE, EXTRACT(YEAR FROM ts) y, FLOOR(ts TO HOUR) h, INTERVAL -'1' DAY d "
    "FROM o": (
        "SELECT CURRENT_DATE, EXTRACT(YEAR FROM `o`.`ts`) AS `y`, FLOOR(`o`.`ts` TO HOUR) AS `h`, "
        f"INTERVAL -'1' DAY AS `d`\n{O}"
    ),
    "SELECT name, COUNT(*) c FROM o GROUP BY GROUPING SETS ((name, id), (name), ())": (
        f"SELECT `o`.`name`, COUNT(*) AS `c`\n{O}\n"
        "GROUP BY GROUPING SETS((`o`.`name`, `o`.`id`), `o`.`name`, ())"
    ),
    "SELECT JSON_VALUE(name, '$.a' RETURNING INT), JSON_OBJECT('k' VALUE id), ARRAY[1] FROM o": (
        "SELECT JSON_VALUE(`o`.`name`, '$.a' RETURNING INTEGER), "
        f"JSON_OBJECT(KEY 'k' VALUE `o`.`id` NULL ON NULL), ARRAY[1]\n{O}"
    ),
    "SELECT id FROM o WHERE id > ALL (SELECT id FROM p)": (
        f"SELECT `o`.`id`\n{O}\nWHERE `o`.`id` > ALL (SELECT `p`.`id`\n{P})"
    ),
    # Hundreds of operators in a row.
    f"SELECT id FROM o WHERE {' OR '.join(['id = 1'] * 400)}": (
        f"SELECT `o`.`id`\n{O}\nWHERE {' OR '.join(['`o`.`id` = 1'] * 400)}"
    ),
    # Parts that have no expanded text: the query stays as written.
    **{
        query: query
        for query in (
            "SELECT * FROM o JOIN p USING (id)",
            "SELECT ROW_NUMBER() OVER (PARTITION BY name ORDER BY ts) AS id FROM o QUALIFY id = 1",
            "SELECT o.id AS id FROM o, p WHERE o.id = p.id ORDER BY id + 1 LIMIT 3",
        )
    },
}


@pytest.fixture(scope="module")
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE o (id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), arr ARRAY<INT>, "
        "r ROW<x INT, y STRING>, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
    )
    made.execute_sql("CREATE TABLE p (id BIGINT, `desc` STRING) WITH ('connector' = 'datagen')")
    text = DataTypes.STRING()
    made.create_temporary_system_function("shout", udf(str.upper, result_type=text))
    made.create_temporary_function("half", udf(lambda x: x, result_type=DataTypes.BIGINT()))
    made.create_temporary_function("parts", udtf(lambda x: [x], result_types=[text]))
    return made


@pytest.mark.parametrize("query", EXPANDED)
def test_the_query_of_a_view_is_expanded_as_in_flink(tables, query):
    tables.execute_sql(f"CREATE TEMPORARY VIEW v AS {query}")
    try:
        shown = next(tables.execute_sql("SHOW CREATE VIEW v").collect())[0]
    finally:
        tables.execute_sql("DROP TEMPORARY VIEW v")
    assert shown.partition("\n)\nAS ")[2] == EXPANDED[query] + "\n"


def test_names_of_a_view_are_those_of_the_database_it_was_made_in(tables):
    tables.execute_sql("CREATE VIEW ids AS SELECT half(id) AS h FROM o")
    tables.execute_sql("CREATE DATABASE other")
    tables.execute_sql("USE other")
    try:
        found = tables.from_path("default_database.ids")
        assert found.get_schema().get_field_names() == ["h"]
    finally:
        tables.execute_sql("USE default_database")
