"""Formats of rows: messages recorded from Flink 2.3 are read and written the same."""

import datetime
import decimal

import pytest
from penstock.errors import FormatError
from penstock.table.exceptions import ValidationException
from penstock.table.formats.registry import create_row_format
from penstock.table.types import DataTypes

D = DataTypes


def _row_type(**columns):
    return D.ROW([D.FIELD(name, kind) for name, kind in columns.items()])


def _format(name, row_type, **options):
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return create_row_format(name, "filesystem", row_type, keys)


ALL = _row_type(
    s=D.STRING(),
    i=D.INT(),
    d=D.DOUBLE(),
    dc=D.DECIMAL(10, 3),
    b=D.BOOLEAN(),
    da=D.DATE(),
    ti=D.TIME(),
    ts=D.TIMESTAMP(3),
    lt=D.TIMESTAMP_LTZ(3),
    y=D.BYTES(),
    a=D.ARRAY(D.INT()),
    r=D.ROW([D.FIELD("x", D.INT()), D.FIELD("z", D.STRING())]),
    f=D.FLOAT(),
)
VALUES = (
    "a b",
    -1,
    1.0e7,
    decimal.Decimal("1.500"),
    True,
    datetime.date(2024, 1, 2),
    datetime.time(1, 2, 3),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 600000),
    datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
    b"\n\xff",
    [1, 2],
    (1, "q"),
    0.1,
)
CSV = (
    '"a b",-1,1.0E7,1.5,true,2024-01-02,01:02:03,"2024-01-02 03:04:05.6",'
    '"1970-01-01 00:00:01Z",Cv8=,1;2,1;q,0.1'
)
JSON = (
    '{"s":"a b","i":-1,"d":1.0E7,"dc":1.5,"b":true,"da":"2024-01-02","ti":"01:02:03",'
    '"ts":"2024-01-02 03:04:05.6","lt":"1970-01-01 00:00:01Z","y":"Cv8=","a":[1,2],'
    '"r":{"x":1,"z":"q"},"f":0.1}'
)


@pytest.mark.parametrize(("name", "message"), [("csv", CSV), ("json", JSON)])
def test_values_of_all_types(name, message):
    row_format = _format(name, ALL)
    assert row_format.encode(0, VALUES) == message.encode()
    [(kind, row)] = row_format.decode(message.encode())
    assert kind == 0
    assert tuple(row)[:10] == VALUES[:10]
    assert list(row[10]) == [1, 2]
    assert tuple(row[11]) == (1, "q")
    nulls = [None] * len(ALL)
    if name == "json":
        [(_, again)] = row_format.decode(row_format.encode(0, nulls))
        assert list(again) == nulls


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("a b", '"a b"'),
        ('a,b"c', '"a,b""c"'),
        ("abcdefghijklmnopqrstuvwxyz", '"abcdefghijklmnopqrstuvwxyz"'),
        ("x_1-2", "x_1-2"),
        ("", ""),
    ],
)
def test_csv_quotes_texts_as_flink_does(text, written):
    row_format = _format("csv", _row_type(s=D.STRING()))
    assert row_format.encode(0, [text]) == written.encode()
    assert list(row_format.decode(written.encode())) == [(0, [text])]


def test_csv_nulls_and_short_lines():
    columns = _row_type(a=D.INT(), b=D.STRING(), c=D.DOUBLE())
    strict = _format("csv", columns)
    assert list(strict.decode(b"3,c")) == [(0, [3, "c", None])]
    for line in (b"x,b,2.5", b"1,b,", b"1,b,2,3"):
        with pytest.raises(FormatError):
            list(strict.decode(line))
    assert list(strict.with_columns([1]).decode(b"x,b,y")) == [(0, [None, "b", None])]
    lenient = _format("csv", columns, ignore_parse_errors="true")
    assert list(lenient.decode(b"x,b,2.5")) == [(0, [None, "b", 2.5])]
    assert list(lenient.decode(b"1,b,2,3")) == []
    named = _format("csv", columns, null_literal="n/a", field_delimiter="|")
    assert list(named.decode(b"n/a||n/a")) == [(0, [None, "", None])]
    assert named.encode(0, [None, None, 1.0]) == b"n/a|n/a|1.0"


def test_csv_without_quotes_and_with_comments():
    row_format = _format(
        "csv",
        _row_type(a=D.STRING()),
        disable_quote_character="true",
        allow_comments="true",
    )
    assert row_format.encode(0, ["a b"]) == b"a b"
    assert list(row_format.decode(b"# nothing")) == []


@pytest.mark.parametrize(
    ("message", "row"),
    [
        ('{"b": "x", "a": 1, "other": [1]}', (1, "x", None)),
        ('{"a": "2", "b": 5, "c": "1.5"}', (2, "5", 1.5)),
        ('{"a": 4.0, "b": {"k": [1, 2]}, "c": 1e2}', (4, '{"k":[1,2]}', 100.0)),
        ('{"b": true}', (None, "true", None)),
    ],
)
def test_json_converts(message, row):
    row_format = _format("json", _row_type(a=D.INT(), b=D.STRING(), c=D.DOUBLE()))
    assert list(row_format.decode(message.encode())) == [(0, row)]


def test_json_errors():
    columns = _row_type(a=D.INT(), b=D.STRING())
    strict = _format("json", columns)
    for message in (b"not json", b'{"a": "x"}', b'{"a": 3000000000}', b"7"):
        with pytest.raises(FormatError, match="Invalid JSON"):
            list(strict.decode(message))
    complete = _format("json", columns, fail_on_missing_field="true")
    with pytest.raises(FormatError, match="'b' is missing"):
        list(complete.decode(b'{"a": 1}'))
    for huge in (b'{"a": 1e999999999}', b'{"a": 1e9999999999}'):
        with pytest.raises(FormatError, match="'a'"):
            list(strict.decode(huge))
    lenient = _format("json", columns, ignore_parse_errors="true")
    assert list(lenient.decode(b"not json")) == []
    assert list(lenient.decode(b"[" * 100_000)) == []
    assert list(lenient.decode(b'{"a": "x", "b": "y"}')) == [(0, (None, "y"))]


def test_small_integers_of_json_have_no_fraction():
    columns = _row_type(a=D.TINYINT(), b=D.SMALLINT(), c=D.INT())
    lenient = _format("json", columns, ignore_parse_errors="true")
    row = next(iter(lenient.decode(b'{"a": 1.5, "b": 1e1, "c": -1.9}')))
    assert row == (0, (None, None, -1))


def test_numbers_that_no_decimal_holds():
    columns = _row_type(d=D.DECIMAL(10, 2))
    json = _format("json", columns)
    assert list(json.decode(b'{"d": 1e200}')) == [(0, (None,))]
    csv = _format("csv", columns, ignore_parse_errors="true")
    assert list(csv.decode(b"1e200")) == [(0, [None])]
    for text in ("Infinity", "1_0"):
        with pytest.raises(FormatError, match=text):
            list(_format("csv", columns).decode(text.encode()))


def test_json_writing_options():
    columns = _row_type(b=D.STRING(), c=D.DECIMAL(20, 10), ts=D.TIMESTAMP(3))
    row = (None, decimal.Decimal("0.0000001000"), datetime.datetime(2024, 1, 2, 3, 4))
    dropping = _format("json", columns, encode__ignore_null_fields="true")
    assert dropping.encode(0, row) == b'{"c":1E-7,"ts":"2024-01-02 03:04:00"}'
    plain = _format(
        "json",
        columns,
        encode__decimal_as_plain_number="true",
        timestamp_format__standard="ISO-8601",
    )
    assert plain.encode(0, row) == b'{"b":null,"c":0.0000001000,"ts":"2024-01-02T03:04:00"}'


def test_captured_changes():
    columns = _row_type(id=D.INT(), x=D.INT())
    debezium = _format("debezium-json", columns)
    update = b'{"before":{"id":1,"x":5},"after":{"id":1,"x":6},"op":"u"}'
    assert list(debezium.decode(update)) == [(1, (1, 5)), (2, (1, 6))]
    assert debezium.encode(1, (1, 5)) == b'{"before":{"id":1,"x":5},"after":null,"op":"d"}'
    assert debezium.encode(2, (1, 6)) == b'{"before":null,"after":{"id":1,"x":6},"op":"c"}'
    assert list(debezium.decode(b"")) == []
    with pytest.raises(FormatError, match="REPLICA IDENTITY"):
        list(debezium.decode(b'{"before":null,"after":{"id":1,"x":6},"op":"u"}'))
    canal = _format("canal-json", columns)
    message = b'{"data":[{"id":"1","x":"7"}],"old":[{"x":"5"}],"type":"UPDATE"}'
    assert list(canal.decode(message)) == [(1, (1, 5)), (2, (1, 7))]
    maxwell = _format("maxwell-json", columns)
    message = b'{"type":"update","data":{"id":1,"x":9},"old":{"x":5}}'
    assert list(maxwell.decode(message)) == [(1, (1, 5)), (2, (1, 9))]
    ogg = _format("ogg-json", columns)
    assert list(ogg.decode(ogg.encode(3, (1, 2)))) == [(3, (1, 2))]


def test_raw():
    assert list(_format("raw", _row_type(a=D.STRING())).decode(b"one, two")) == [(0, ("one, two",))]
    number = _format("raw", _row_type(a=D.INT()), endianness="little-endian")
    assert list(number.decode(number.encode(0, [258]))) == [(0, (258,))]
    assert number.encode(0, [258]) == b"\x02\x01\x00\x00"
    with pytest.raises(FormatError):
        list(number.decode(b"x"))
    with pytest.raises(ValidationException, match="exactly one"):
        _format("raw", _row_type(a=D.STRING(), b=D.STRING()))


def test_unknown_formats_and_options():
    columns = _row_type(a=D.INT())
    with pytest.raises(ValidationException, match=r"'xyz'.*csv, .*json"):
        _format("xyz", columns)
    with pytest.raises(ValidationException, match="field-delimiter"):
        _format("csv", columns, field_delimitor=";")
    with pytest.raises(ValidationException, match="one character"):
        _format("csv", columns, field_delimiter=";;")
