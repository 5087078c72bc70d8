"""Messages for schemas of formats, and their results in PyFlink.

    python formats.py record    with PyFlink's interpreter: writes ``recorded/formats.json``

PyFlink's schemas are Java's, which are called without a job.
"""

import datetime
import decimal
import importlib
import json
import sys
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "formats.json"

JSON_TYPES = {
    "BOOLEAN": ["true", "false", "1", "0", '"true"', '"x"', "null", "1.5", "[]"],
    "BYTE": ["1", "-128", "128", '"7"', "1.5", "null", "true"],
    "SHORT": ["1", "32768", '"7"', "1.0"],
    "INT": ["1", "2147483648", '"7"', '" 7"', "1.5", '"1.5"', "true", "null", '"x"', "{}"],
    "LONG": ["1", "9223372036854775807", "9223372036854775808", '"7"', "1e3", "1.5", '"x"'],
    "FLOAT": ["1", "1.5", "0.25", '"1.5"', "1e50", '"NaN"', "true", "null"],
    "DOUBLE": ["1", "1.5", "1e400", '"1.5"', '"NaN"', '"Infinity"', "true", '"x"'],
    "BIG_DEC": ["1", "1.50", "1e3", '"1.50"', "12345678901234567890.123", "true", '"x"'],
    "BIG_INT": ["1", "12345678901234567890", '"12"', "1.5", "true"],
    "STRING": [
        *('"a"', "1", "1.50", "true", "null", '{"a": 1}', "[1, 2]", '""', '"\\u00e9"'),
        *('"\\ud83d"', '"cut \\ud83d"', '"\\ude00 x"', '"\\uD83D\\n"', '"\\ud83d\\ud83d\\ude00"'),
        *('"\\\\ud83d"', '{"\\ud83d": "\\ude00"}', '"\\ud83d\\u00"'),
    ],
    "SQL_DATE": ['"2024-05-06"', '"2024-5-6"', '"x"', "1", "null", '"2024-05-06T00:00:00"'],
    "SQL_TIME": ['"10:11:12"', '"10:11:12Z"', '"10:11:12.5"', '"10:11"', '"x"', "null"],
    "SQL_TIMESTAMP": [
        '"2024-05-06T10:11:12Z"',
        '"2024-05-06T10:11:12"',
        '"2024-05-06 10:11:12"',
        '"2024-05-06T10:11:12.5Z"',
        '"x"',
        "null",
    ],
}

JSON_ROWS = [
    ("ROW_NAMED(['a', 'b'], [INT(), STRING()])", text)
    for text in (
        '{"a": 1, "b": "x"}',
        '{"b": "x", "a": 1}',
        '{"a": 1}',
        "{}",
        '{"a": 1, "b": "x", "c": 2}',
        '{"a": 1, "a": 2, "b": "x"}',
        '{"A": 1, "b": "x"}',
        "null",
        "[]",
        '"a"',
        "",
        " ",
        '{"a": 1, "b": "x"',
        '{"a": 1, "b": "x"} {"a": 2}',
        '{"a": 1, "b": "x"}]',
        '{"a": 01, "b": "x"}',
        '{"a": 1, "b": "x",}',
        "{'a': 1}",
        '{"a": NaN, "b": "x"}',
        '{"a": 1, "b": "\t"}',
        '\ufeff{"a": 1, "b": "x"}',
    )
] + [
    ("ROW_NAMED(['a'], [ROW_NAMED(['b'], [INT()])])", '{"a": {"b": 1}}'),
    ("ROW_NAMED(['a'], [ROW_NAMED(['b'], [INT()])])", '{"a": null}'),
    ("ROW_NAMED(['a'], [ROW_NAMED(['b'], [INT()])])", '{"a": [1]}'),
    ("ROW_NAMED(['a'], [OBJECT_ARRAY(INT())])", '{"a": [1, 2]}'),
    ("ROW_NAMED(['a'], [OBJECT_ARRAY(INT())])", '{"a": [1, null]}'),
    ("ROW_NAMED(['a'], [OBJECT_ARRAY(INT())])", '{"a": 1}'),
    ("ROW_NAMED(['a'], [BASIC_ARRAY(LONG())])", '{"a": [1, 2]}'),
    ("ROW_NAMED(['a'], [PRIMITIVE_ARRAY(BYTE())])", '{"a": "YWI="}'),
    ("ROW_NAMED(['a'], [PRIMITIVE_ARRAY(BYTE())])", '{"a": "%"}'),
    ("ROW_NAMED(['a'], [MAP(STRING(), INT())])", '{"a": {"x": 1, "y": 2}}'),
    ("ROW_NAMED(['a'], [MAP(STRING(), INT())])", '{"a": {}}'),
]

CSV_ROWS = [
    (kind, settings, text)
    for kind, settings, texts in (
        (
            "ROW_NAMED(['a', 'b'], [INT(), STRING()])",
            "",
            (
                "1,x",
                "1, x",
                " 1 ,x",
                "1",
                "1,x,y",
                "",
                ",",
                "x,1",
                '1,"x"',
                '1,"x,y"',
                '1,"x""y"',
                '1,"x',
                '"1",x',
                "1,x\n",
                "1,x\r\n",
                "1,x\n2,y",
                "#1,x",
                "1.5,x",
                "2147483648,x",
                "1,null",
                '1,""',
            ),
        ),
        (
            "ROW_NAMED(['a', 'b'], [INT(), STRING()])",
            ".set_null_literal('null').set_field_delimiter(';')",
            ("1;null", "null;x", "null;null", "1;", ";x", '1;"null"', "1,x"),
        ),
        (
            "ROW_NAMED(['a', 'b'], [INT(), STRING()])",
            ".set_allow_comments(True)",
            ("#1,x", "1,#x", "1,x"),
        ),
        (
            "ROW_NAMED(['a', 'b'], [INT(), STRING()])",
            ".set_quote_character(\"'\").set_escape_character('\\\\')",
            ("1,'x,y'", "1,x\\,y", "1,'x\\'y'", '1,"x"'),
        ),
        (
            "ROW_NAMED(['a', 'b'], [INT(), STRING()])",
            ".set_ignore_parse_errors(True)",
            ("x,1", "1,x,y", "1", "1,x"),
        ),
        (
            "ROW_NAMED(['a', 'b'], [STRING(), OBJECT_ARRAY(INT())])",
            "",
            ("x,1;2", "x,", "x,1", "x,1;x", "x,1;;2"),
        ),
        (
            "ROW_NAMED(['a'], [BOOLEAN()])",
            "",
            ("true", "TRUE", "True", "1", "0", "x", "", "false", " true "),
        ),
        ("ROW_NAMED(['a'], [LONG()])", "", ("1", "+1", "-1", " 1", "1_0", "0x1", "1.0", "")),
        (
            "ROW_NAMED(['a'], [DOUBLE()])",
            "",
            ("1", "1.5", "1e3", "NaN", "inf", "Infinity", "1d", "1_0", "1e400", "-nan"),
        ),
        ("ROW_NAMED(['a'], [BIG_DEC()])", "", ("1", "1.50", "1e3", "x", "", "1_0")),
        ("ROW_NAMED(['a'], [SQL_DATE()])", "", ("2024-05-06", "2024-5-6", "x", "")),
        ("ROW_NAMED(['a'], [SQL_TIME()])", "", ("10:11:12", "10:11", "10:11:12.5", "x")),
        (
            "ROW_NAMED(['a'], [SQL_TIMESTAMP()])",
            "",
            ("2024-05-06 10:11:12", "2024-05-06 10:11:12.5", "2024-05-06T10:11:12", "x"),
        ),
    )
    for text in texts
]


def cases():
    """Yield each case: the expression that creates the schema, and the message."""
    reader = "JsonRowDeserializationSchema.builder()"
    for kind, texts in JSON_TYPES.items():
        row = f"ROW_NAMED(['a'], [{kind}()])"
        for text in texts:
            yield f"{reader}.type_info({row}).build()", f'{{"a": {text}}}'
    for row, text in JSON_ROWS:
        yield f"{reader}.type_info({row}).build()", text
        if row.startswith("ROW_NAMED(['a', 'b']"):
            yield f"{reader}.fail_on_missing_field().type_info({row}).build()", text
            yield f"{reader}.ignore_parse_errors().type_info({row}).build()", text
    for row, settings, text in CSV_ROWS:
        yield f"CsvRowDeserializationSchema.Builder({row}){settings}.build()", text


def schema_of(expression, package):
    """Return the schema that an expression creates in penstock or PyFlink."""
    types = importlib.import_module(f"{package}.common").Types
    names = {name: getattr(types, name) for name in dir(types) if name.isupper()}
    for module, kind in (("json", "Json"), ("csv", "Csv")):
        formats = importlib.import_module(f"{package}.datastream.formats.{module}")
        name = f"{kind}RowDeserializationSchema"
        names[name] = getattr(formats, name)
    return eval(expression, names)


def shown(value):
    """Return a value as text, the same for penstock and Java."""
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return f"decimal {value.normalize()}"
    if isinstance(value, bytes | bytearray):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, datetime.datetime):
        return f"time {value.isoformat(' ', 'microseconds')}"
    if isinstance(value, datetime.date | datetime.time):
        return f"time {value.isoformat()}"
    if isinstance(value, dict):
        return f"map {sorted((shown(k), shown(v)) for k, v in value.items())}"
    return f"[{', '.join(map(shown, value))}]"


def outcome(read, message):
    """Return the result of a schema for a message: the row, nothing, or an error."""
    try:
        return shown(read(message.encode()))
    except Exception:
        return "an error"


MEANT = {
    "text after an object or a line is an error, not ignored": {
        ("JSON", '{"a": 1, "b": "x"} {"a": 2}'),
        ("JSON", '{"a": 1, "b": "x"}]'),
        ("CSV", "1,x\n2,y"),
    },
    "a comment is not a row, if comments are allowed": {("CSV", "#1,x")},
    "times may be in any form of ISO 8601": {
        ("CSV", "10:11"),
        ("CSV", "10:11:12.5"),
        ("CSV", "2024-05-06T10:11:12"),
    },
    "a number has no type letter, unlike in Java": {("CSV", "1d")},
}
"""Intended differences: the reason, and the messages."""


def differing():
    """Return the messages for which penstock's result differs from PyFlink's."""
    found = {}
    for expression, answers in json.loads(RECORDED.read_text()).items():
        kind = "JSON" if expression.startswith("Json") else "CSV"
        read = schema_of(expression, "penstock").deserialize
        for message, answer in answers:
            own = outcome(read, message)
            if own != answer:
                found[kind, message] = (expression, answer, own)
    return found


# ---- PyFlink -------------------------------------------------------------------------------------


def of_java(value):
    """Return a Java value as a Python value."""
    from py4j.java_collections import JavaArray, JavaMap

    if isinstance(value, JavaArray):
        return [of_java(one) for one in value]
    if isinstance(value, JavaMap):
        return {of_java(key): of_java(one) for key, one in value.items()}
    if not hasattr(value, "getClass"):
        return value
    name = value.getClass().getName()
    if name == "org.apache.flink.types.Row":
        return [of_java(value.getField(number)) for number in range(value.getArity())]
    text = value.toString()
    if name == "java.sql.Timestamp":
        return datetime.datetime.fromisoformat(text.partition(".")[0]) + datetime.timedelta(
            seconds=float("0." + text.partition(".")[2])
        )
    if name == "java.sql.Date":
        return datetime.date.fromisoformat(text)
    if name == "java.sql.Time":
        return datetime.time.fromisoformat(text)
    if name in ("java.math.BigDecimal", "java.math.BigInteger"):
        return decimal.Decimal(text) if name.endswith("Decimal") else int(text)
    raise TypeError(name)


def record():
    """Record PyFlink's results."""
    found = {}
    for expression, message in cases():
        try:
            schema = schema_of(expression, "pyflink")._j_deserialization_schema
            schema.open(None)
        except Exception as error:
            raise RuntimeError(expression) from error
        told = outcome(lambda data, s=schema: of_java(s.deserialize(data)), message)
        found.setdefault(expression, []).append([message, told])
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit(__doc__)
    record()
