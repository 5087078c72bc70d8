"""Built-in functions: results, types, and values that cannot be converted."""

import datetime
import decimal
import functools
import math

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import numbers, registry
from penstock.table.functions.accumulators import (
    Average,
    Count,
    Distinct,
    RetractableExtreme,
    Sum,
)
from penstock.table.functions.evaluation import Evaluator, Session, fold
from penstock.table.functions.variances import Variance
from penstock.table.plan import expressions as e
from penstock.table.plan.binder import Binder
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.scopes import Scope
from penstock.table.plan.sql_expressions import SqlExpressions
from penstock.table.sql.parsing import parse_expression
from penstock.table.types.arrow_types import python_values
from unit.table.planning import plan

NOT_NULL = "STRING NOT NULL"
ONE_ROW = pa.RecordBatch.from_arrays([pa.array([0])], ["$"])
D = decimal.Decimal


def bound(text, session=None):
    context = PlanningContext(lambda *_: None, session=session or Session(), text=text)
    expressions = SqlExpressions(Binder(context), Scope(), bind_query=lambda *_: None)
    return expressions.bind(parse_expression(text))


def value(text, session=None):
    session = session or Session()
    expression = bound(text, session)
    column = Evaluator([expression], session).column(expression, ONE_ROW)
    return python_values(column, expression.type)[0]


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("1 + 2", 3, "INT NOT NULL"),
        ("pi / 1", math.pi, "DOUBLE NOT NULL"),
        ("CAST(1 AS TINYINT) + CAST(1 AS SMALLINT)", 2, "SMALLINT NOT NULL"),
        ("-7 / 2", -3, "INT NOT NULL"),
        ("-7 % 3", -1, "INT NOT NULL"),
        ("2147483647 + 1", -2147483648, "INT NOT NULL"),
        ("10.00 / 3", D("3.3333333333333"), "DECIMAL(15, 13) NOT NULL"),
        ("1.50 * 2.0", D("3.000"), "DECIMAL(6, 3) NOT NULL"),
        ("1.1 + CAST(1 AS FLOAT)", 2.1, "DOUBLE NOT NULL"),
        ("CAST(1.5 AS FLOAT) + CAST(1 AS DOUBLE)", 2.5, "FLOAT NOT NULL"),
        ("CAST(16777217 AS FLOAT)", 16777216.0, "FLOAT NOT NULL"),
        ("9007199254740993 / 1e0", 9007199254740992.0, "DOUBLE NOT NULL"),
        ("9007199254740993 > 1e0", True, "BOOLEAN NOT NULL"),
        ("NULL IS NOT DISTINCT FROM NULL", True, "BOOLEAN NOT NULL"),
        ("JSON_OBJECT('z' VALUE 1, 'a' VALUE 2)", '{"a":2,"z":1}', "STRING NOT NULL"),
        ("JSON_OBJECT('o' VALUE JSON('{\"z\": 1, \"a\": 2}'))", '{"o":{"a":2,"z":1}}', NOT_NULL),
        ("JSON_ARRAY(1.50, 2.0)", "[1.50,2.0]", NOT_NULL),
        ("DATE_FORMAT('2024-1-5 3:04:09.5', 'HH.SSS')", "03.000", "STRING"),
        ("DATE_FORMAT('2024-01-05', 'dd')", None, "STRING"),
        ("JSON_STRING(MAP['z', 1, 'a', 2])", '{"a":2,"z":1}', "STRING NOT NULL"),
        ("JSON_VALUE('{\"a\": 12345678.90}', '$.a')", "12345678.90", "STRING"),
        ("JSON_QUERY('{\"z\": 1e2, \"b\": 1.50}', '$')", '{"b":1.50,"z":1E+2}', "STRING"),
        ("SPLIT_INDEX('a1b', '', 0)", "a1b", "STRING"),
        ("SPLIT('', ',')", [], "ARRAY<STRING> NOT NULL"),
        ("STR_TO_MAP('')", {}, "MAP<STRING, STRING>"),
        ("ASCII('é')", -61, "INT NOT NULL"),
        ("LOCATE('a', 'banana', 0)", 2, "INT NOT NULL"),
        ("REGEXP('abc', '')", False, "BOOLEAN NOT NULL"),
        ("'abc' SIMILAR TO 'a.c'", True, "BOOLEAN NOT NULL"),
        ("UPPER(CAST('straße' AS STRING))", "STRASSE", "STRING NOT NULL"),
        ("FROM_BASE64('YQ')", "a", "STRING NOT NULL"),
        ("URL_ENCODE('a b~')", "a+b%7E", "STRING"),
        ("PRINTF('%d', 'a')", None, "STRING"),
        ("JSON_QUOTE('a/b')", r'"a\/b"', "STRING NOT NULL"),
        ("ROUND(2.345, 2)", D("2.35"), "DECIMAL(4, 2) NOT NULL"),
        ("ROUND(9223372036854775807, -1)", -9223372036854775806, "BIGINT NOT NULL"),
        ("ROUND(CAST(127 AS TINYINT), -1)", -126, "TINYINT NOT NULL"),
        ("CEIL(1.2)", D(2), "DECIMAL(2, 0) NOT NULL"),
        ("'a' || 'bc'", "abc", "CHAR(3) NOT NULL"),
        ("INITCAP('hELLO wORLD-x')", "Hello World-X", "CHAR(13) NOT NULL"),
        ("INITCAP('über éTA')", "üBer éTa", "CHAR(8) NOT NULL"),
        ("TYPEOF(1 + CAST(2 AS BIGINT))", "BIGINT NOT NULL", "STRING"),
        ("TYPEOF(CAST('a' AS STRING), TRUE)", "VARCHAR(2147483647) NOT NULL", "STRING"),
        ("IS_ALPHA('abc')", True, "BOOLEAN NOT NULL"),
        ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661", "CHAR(32) NOT NULL"),
        ("CHAR_LENGTH(SHA512('a'))", 128, "INT NOT NULL"),
        ("1.", 1, "INT NOT NULL"),
        ("CASE WHEN TRUE THEN 1 ELSE 2.5 END", D("1.0"), "DECIMAL(11, 1) NOT NULL"),
        ("NULLIF(1, 1)", None, "INT"),
        ("ARRAY[1, 2][3]", None, "INT"),
        ("EXTRACT(DAY FROM DATE '2024-02-29')", 29, "BIGINT NOT NULL"),
        ("LEFT('abc', 1)", "a", "VARCHAR(3)"),
        ("LEFT(SHA2('abc', 224), 6)", "23097d", "VARCHAR(128)"),
        ("CHR(65)", "A", "STRING"),
        ("ELT(2, 'x', 'y')", "y", "CHAR(1)"),
        ("ELT(2, 'x', 'yy')", "yy", "VARCHAR(2)"),
        ("ELT(1, NULL)", None, "STRING"),
    ],
)
def test_values_and_types(text, expected, kind):
    assert value(text) == expected
    assert str(bound(text).type) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(NULL AS BOOLEAN) AND FALSE", False),
        ("CAST(NULL AS BOOLEAN) OR FALSE", None),
        ("2 NOT IN (1, CAST(NULL AS INT))", None),
        ("1 IN ('1', '2')", True),
        ("'10' >= 9", True),
        ("9.5 < '10'", True),
        ("CAST('9.9' AS STRING) BETWEEN 9.5 AND 1e1", True),
        ("CAST(NULL AS INT) IS DISTINCT FROM 1", True),
        ("FALSE AND 1 / 0 > 1", False),
        ("CASE WHEN TRUE THEN 1 ELSE 1 / 0 END", 1),
        ("CAST(300 AS TINYINT)", 44),
        ("CAST(' 12 ' AS INT)", 12),
        ("CAST(1e20 AS STRING)", "1.0E20"),
        ("CAST(CAST(0.1 AS FLOAT) AS STRING)", "0.1"),
        ("CAST(0.001 AS DOUBLE)", 0.001),
        ("CAST(CAST(0.0001 AS DOUBLE) AS STRING)", "1.0E-4"),
        ("CAST(CAST(1234567 AS DOUBLE) AS STRING)", "1234567.0"),
        ("CAST(CAST(12345678 AS DOUBLE) AS STRING)", "1.2345678E7"),
        ("CAST(12345.678 AS DECIMAL(5, 2))", None),
        ("CAST('a' AS CHAR(3))", "a  "),
        ("CAST(ARRAY[1, 2] AS STRING)", "[1, 2]"),
        ("CAST(TIMESTAMP '2024-01-02 03:04:05.120' AS STRING)", "2024-01-02 03:04:05.120"),
        ("TRY_CAST('x' AS INT)", None),
        ("TRY_CAST('2024-02-29T10:11:12' AS TIMESTAMP(3))", None),
        ("TO_TIMESTAMP('2024-02-29 10:11')", None),
        ("TRIM(LEADING 'x' FROM 'xxaxx')", "axx"),
        ("SUBSTRING('hello', -3)", "llo"),
        ("OVERLAY('hello' PLACING 'XX' FROM 2 FOR 3)", "hXXo"),
        ("SPLIT_INDEX('a,b,c', ',', 9)", None),
        ("REGEXP_REPLACE('ab', '(b)', '[$1\\1]')", "a[$1\\1]"),
        ("ARRAY[IS_ALPHA('a1'), IS_ALPHA(''), IS_ALPHA(CAST(NULL AS STRING))]", [False] * 3),
        ("ARRAY[IS_DIGIT('12'), IS_DIGIT('1.2'), IS_DIGIT(12)]", [True, False, True]),
        ("ARRAY[IS_DECIMAL('-1.2e3'), IS_DECIMAL('x'), IS_DECIMAL(1.2)]", [True, False, True]),
        ("REGEXP_EXTRACT('key=val', '(\\w+)=(\\w+)', 2)", "val"),
        ("'50%' LIKE '50!%' ESCAPE '!'", True),
        ("'a\nb' LIKE 'a%b'", True),
        ("'hello' SIMILAR TO '[a-h]%'", True),
        ("CONCAT_WS('-', 'a', CAST(NULL AS STRING), 'b')", "a-b"),
        ("REGEXP('abc', '(')", False),
        ("ENCODE('é', 'UTF-16')", b"\xfe\xff\x00\xe9"),
        ("DECODE(x'00e9', 'UTF-16')", "é"),
        ("DECODE(x'fffee900', 'UTF-16')", "é"),
        ("UNHEX('161')", b"\x00a"),
        ("UNHEX('6 1 ')", None),
        ("PARSE_URL('http://h.org/p?q=1&r=2', 'QUERY', 'r')", "2"),
        ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a.b')", "1"),
        ("JSON_QUERY('{\"a\": [1, 2]}', 'lax $.a')", "[1,2]"),
        ("JSON_VALUE('no JSON', 'lax $.a' DEFAULT 'empty' ON EMPTY)", "empty"),
        ("JSON_VALUE('no JSON', 'strict $.a' DEFAULT 'error' ON ERROR)", "error"),
        ("JSON_QUERY('[1, 2]', 'lax $[*]' WITH WRAPPER)", "[[1,2]]"),
        ("JSON_QUERY('[1, 2]', 'lax $[*]' WITH CONDITIONAL WRAPPER)", "[1,2]"),
        ("JSON_EXISTS('{}', 'strict $.zz' TRUE ON ERROR)", True),
        ("JSON_OBJECT('a' VALUE 1, 'b' VALUE NULL ABSENT ON NULL)", '{"a":1}'),
        ("DATE '2024-01-31' + INTERVAL '1' MONTH", datetime.date(2024, 2, 29)),
        ("TIME '23:30:00' + INTERVAL '1' HOUR", datetime.time(0, 30)),
        ("DATE '2024-06-01' + INTERVAL '-5' MONTH / 2", datetime.date(2024, 4, 1)),
        ("INTERVAL '-0.005' SECOND / 2", datetime.timedelta(milliseconds=-2)),
        ("TIMESTAMPDIFF(MONTH, DATE '2024-01-31', DATE '2024-02-29')", 1),
        (
            "(TIMESTAMP '2024-01-02 10:00:00' - TIMESTAMP '2024-01-01 00:00:00') HOUR",
            datetime.timedelta(hours=34),
        ),
        ("(DATE '2024-03-31' - DATE '2024-01-01') MONTH", 2),
        ("(DATE '2024-01-03' - DATE '2024-01-01') DAY TO SECOND > INTERVAL '1' DAY", True),
        ("FLOOR(DATE '2024-02-29' TO WEEK)", datetime.date(2024, 2, 25)),
        ("DATE_FORMAT(TIMESTAMP '2024-02-09 03:04:05', 'yy/M/dd HH:mm')", "24/2/09 03:04"),
        ("TO_TIMESTAMP('09.02.2024 1:05', 'dd.MM.yyyy H:mm')", datetime.datetime(2024, 2, 9, 1, 5)),
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]),
        ("MAP['a', 1, 'b', 2]['b']", 2),
        ("CARDINALITY(ARRAY[1, NULL])", 2),
    ],
)
def test_results(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRY_CAST('1_000' AS DECIMAL(10, 2))", None),
        ("TRY_CAST('nan' AS DOUBLE)", None),
        ("TRY_CAST('1dd' AS DOUBLE)", None),
        ("TRY_CAST('\u0663' AS INT)", None),
        ("CAST('-Infinity' AS DOUBLE)", float("-inf")),
        ("CAST(' 1.5e3f ' AS DOUBLE)", 1500.0),
        ("CAST('1e200' AS DECIMAL(10, 2))", None),
        ("CAST('0e200' AS DECIMAL(10, 2))", D("0.00")),
        ("CAST('99999999.995' AS DECIMAL(10, 2))", None),
        ("CAST(1e200 AS DECIMAL(10, 2))", None),
        ("TO_TIMESTAMP('99999999999-01-01', 'y-M-d')", None),
        ("TO_TIMESTAMP_LTZ(999999999999999, 3)", None),
        ("FROM_UNIXTIME(253402300800)", None),
        ("FROM_UNIXTIME(CAST('-9223372036854775808' AS BIGINT))", None),
        ("CONVERT_TZ('9999-12-31 23:59:59', 'UTC', 'Asia/Tokyo')", None),
        ("CONVERT_TZ('0099-01-01 00:00:00', 'UTC', 'UTC')", "0099-01-01 00:00:00"),
        ("TO_TIMESTAMP_LTZ(CAST('NaN' AS DOUBLE), 0)", None),
        ("TO_TIMESTAMP_LTZ(CAST('9e34' AS DECIMAL(38, 0)), 9)", None),
    ],
)
def test_texts_and_numbers_that_java_has_no_value_for(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CEIL(TO_TIMESTAMP_LTZ(1729991430000, 3) TO MINUTE)", "02:11"),
        ("FLOOR(TO_TIMESTAMP_LTZ(1729991430000, 3) TO HOUR)", "02:00"),
        ("CEIL(TO_TIMESTAMP_LTZ(1729987830000, 3) TO HOUR)", "02:00"),
        ("FLOOR(TO_TIMESTAMP_LTZ(1729991430000, 3) TO DAY)", "00:00"),
    ],
)
def test_instants_in_a_repeated_hour_are_rounded(text, expected):
    """In Berlin, 02:10:30 came twice on 2024-10-27: at 00:10:30 and at 01:10:30 UTC."""
    session = Session("Europe/Berlin")
    rounded = value(text, session)
    assert f"{rounded.astimezone(session.zone):%H:%M}" == expected
    assert abs(rounded - value("TO_TIMESTAMP_LTZ(1729991430000, 3)")) < datetime.timedelta(hours=4)
    if "CEIL" in text:
        assert rounded > value(text.split("(", 1)[1].split(" TO ")[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ROUND(CAST('1e150' AS DOUBLE), 2)", 1e150),
        ("TRUNCATE(CAST('-1.25e-3' AS DOUBLE), 3)", -0.001),
        ("ROUND(1.5, 200)", D("1.5")),
        ("ROUND(5, -2147483648)", 0),
        ("POWER(0, -1)", math.inf),
        ("POWER(-10, 309)", -math.inf),
        ("POWER(-10, 310)", math.inf),
        ("POWER(-2, CAST('Infinity' AS DOUBLE))", math.inf),
        ("LOG(1, 5)", math.inf),
        ("SINH(-1000)", -math.inf),
        ("INET_ATON('\u00b2')", None),
        ("SPLIT_INDEX('a,b', -1, 0)", None),
        ("SPLIT_INDEX('a,b', 44, 1)", "b"),
        ("PARSE_URL('http://user@Example.COM:80/p', 'HOST')", "Example.COM"),
        ("JSON_VALUE('{\"a\": 1e99999999999999999999}', '$.a')", None),
        ("JSON_VALUE(REPEAT('[', 100000), '$.a')", None),
        ("REPEAT('[', 100000) IS JSON", False),
        ("CHAR_LENGTH(JSON_QUERY('[1e999999]', '$'))", len("[1E+999999]")),
        ("JSON_QUERY('[1e3, 1.50]', '$')", "[1E+3,1.50]"),
    ],
)
def test_extreme_arguments_do_not_fail_the_job(text, expected):
    assert value(text) == expected


def test_a_seed_that_is_no_constant_has_a_generator_for_each_row():
    batch = pa.RecordBatch.from_arrays([pa.array([7, 8, 7, None])], ["seed"])
    seed = e.Column(types.IntType(), 0, "seed")
    call = registry.call("RAND_INTEGER", seed, e.Literal(types.IntType(False), 1000))
    one, other, again, none = Evaluator([call], Session()).column(call, batch).to_pylist()
    assert (one, none) == (again, None)
    assert one != other


def test_calls_with_one_constant_seed_have_generators_of_their_own():
    calls = [bound("RAND(7)"), bound("RAND(7)")]
    batch = pa.RecordBatch.from_arrays([pa.array([0, 0])], ["$"])
    for _ in range(2):  # not even another query continues them
        evaluator = Evaluator(calls, Session())
        first, second = (
            [column.to_pylist() for column in evaluator.evaluate(batch)] for _ in range(2)
        )
        generator = numbers.JavaRandom(7)
        expected = [generator.next_double() for _ in range(4)]
        assert first == [expected[:2]] * 2
        assert second == [expected[2:]] * 2


def test_variances_of_large_numbers_keep_their_digits():
    variance = Variance(types.DoubleType(), is_sample=False, is_root=False)
    for first in (10**9, D(10**16) + D("0.001")):
        numbers = first, first + 1, first + 2
        parts = [variance.add(variance.create(), number) for number in numbers]
        assert variance.result(functools.reduce(variance.merge, parts)) == 2 / 3
        accumulator = variance.create()
        for number in (*numbers, first):
            accumulator = variance.add(accumulator, number)
        assert variance.result(variance.retract(accumulator, first)) == 2 / 3


def test_sums_of_decimals_retract_all_digits():
    large, small = D("12345678901234567890123456789012345678"), D(5)
    for function in (Sum(types.DecimalType(38, 0)), Average(types.DecimalType(38, 6))):
        accumulator = function.create()
        for number in (large, small):
            accumulator = function.add(accumulator, number)
        assert function.result(function.retract(accumulator, large)) == small


@pytest.mark.parametrize("function", [Distinct(Count()), RetractableExtreme(is_max=True)])
def test_nan_equals_nan_in_aggregates(function):
    accumulator = function.add(function.create(), 1.0)
    for _ in range(2):
        accumulator = function.add(accumulator, float("nan"))
    if isinstance(function, Distinct):
        assert function.result(accumulator) == 2
    for _ in range(2):
        accumulator = function.retract(accumulator, float("nan"))
    assert function.result(accumulator) == 1


def test_local_times_follow_the_session():
    session = Session("America/New_York")
    text = "CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)"
    assert value(text, session) == "1969-12-31 19:00:00.000"
    # As in Flink, a text without a zone is in UTC.
    text = "CAST(TO_TIMESTAMP_LTZ('1970-01-01 00:00:00') AS STRING)"
    assert value(text, session) == "1969-12-31 19:00:00.000"
    assert value("FROM_UNIXTIME(0)", session) == "1969-12-31 19:00:00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CAST('abc' AS INT)", "abc"),
        ("DATE '9999-12-31' + INTERVAL '1' DAY", "years 1 to 9999"),
        ("TIMESTAMPADD(MONTH, -30000, DATE '2020-01-01')", "years 1 to 9999"),
        ("TIMESTAMPADD(WEEK, 2147483647, TIMESTAMP '2020-01-01 00:00:00')", "years 1 to 9999"),
        ("CEIL(DATE '9999-12-31' TO YEAR)", "years 1 to 9999"),
        ("CAST('2024-13-01' AS DATE)", "2024-13-01"),
        ("SHA2('a', 1)", "224, 256, 384, 512 bits, got 1"),
    ],
)
def test_bad_values_fail(text, words):
    with pytest.raises(TableException) as caught:
        value(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "1 = '1'",
        "'a' + 1",
        "'a' || 1",
        "ABS('x')",
        "ARRAY[1][0]",
        "LEFT('a')",
        "SUM(SUM(1))",
        "SUM(SUM(SUM(1))) OVER ()",
        "SUM(SUM(1) OVER ()) OVER ()",
    ],
)
def test_wrong_types_are_refused(text):
    with pytest.raises(ValidationException):
        bound(text)


def test_constants_are_folded_and_what_fails_is_kept():
    assert fold(bound("1 + 2 * 3"), Session()).value == 7
    failing = bound("1 / 0")
    assert fold(failing, Session()) is failing
    random = bound("RAND() + 1")
    assert fold(random, Session()) is random


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("UPPER('abc')", "CHAR(3) NOT NULL"),
        ("LOWER(CAST('abc' AS STRING))", "STRING NOT NULL"),
        ("REVERSE('abc')", "STRING"),
        ("SUBSTRING('abc', 2)", "VARCHAR(3)"),
        ("OVERLAY('abc' PLACING 'xy' FROM 1)", "VARCHAR(5) NOT NULL"),
        ("TRIM(' a ')", "VARCHAR(3) NOT NULL"),
        ("LTRIM('xa', 'x')", "VARCHAR(2) NOT NULL"),
        ("MD5('a')", "CHAR(32) NOT NULL"),
        ("MD5(CAST(NULL AS STRING))", "CHAR(32)"),
        ("STR_TO_MAP('a=1')", "MAP<STRING, STRING>"),
        ("REGEXP_REPLACE('a', 'b', 'c')", "STRING NOT NULL"),
        ("ENCODE('a', 'UTF-8')", "BYTES NOT NULL"),
        ("CONCAT_WS('-', 'a', CAST(NULL AS STRING))", "STRING"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-01 00:00:00', 'yyyy')", "STRING"),
        ("FROM_UNIXTIME(0)", "STRING"),
        ("JSON('1')", "STRING NOT NULL"),
        ("TO_TIMESTAMP_LTZ(1, 6)", "TIMESTAMP_LTZ(6)"),
    ],
)
def test_texts_have_the_types_of_flink(call, kind):
    assert str(plan(f"SELECT {call} FROM orders").schema.fields[0].type) == kind


@pytest.mark.parametrize(
    "call",
    [
        "MOD(CAST(1 AS DOUBLE), 2)",
        "CAST(1 AS FLOAT) % 2",
        "DATE_FORMAT(DATE '2024-01-01', 'yyyy')",
        "ARRAY[]",
        "TO_TIMESTAMP_LTZ('2024-01-01', 'yyyy-MM-dd', 'nowhere')",
        "DATE '2024-01-01' < TIMESTAMP '2024-01-01 00:00:00'",
        "ts BETWEEN DATE '2024-01-01' AND DATE '2024-01-02'",
        "ROW(1, 2) < ROW(1, 3)",
        "ARRAY[1] >= ARRAY[2]",
        "CAST('1' AS INTERVAL DAY)",
        "CONCAT('a', 1)",
        "ts = DATE '2024-01-01'",
        "CASE WHEN n > 1 THEN ts ELSE DATE '2024-01-01' END",
        "ARRAY[ts, DATE '2024-01-01']",
        "MAP['a', 1][1]",
        "ARRAY_JOIN(ARRAY[1, 2], ',')",
        "TIMESTAMPDIFF(DAY, ts, CURRENT_TIMESTAMP)",
        "-k",
        "-ts",
        "CONCAT_WS('-', 'a', 1)",
        "CAST(1 AS TIMESTAMP_LTZ(3))",
        "TRY_CAST(n AS TIMESTAMP_LTZ)",
        "CAST(CURRENT_TIMESTAMP AS BIGINT)",
    ],
)
def test_flink_refuses_these_calls(call):
    with pytest.raises(ValidationException):
        plan(f"SELECT {call} FROM orders")


def test_instants_of_micros():
    assert value("TO_TIMESTAMP_LTZ(1500001, 6)") == datetime.datetime(
        1970, 1, 1, 0, 0, 1, 500001, tzinfo=datetime.UTC
    )
