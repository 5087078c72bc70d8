"""Blocks of JSON lines and CSV read as columns have the values that the row reader reads."""

import json

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.errors import FormatError
from penstock.formats.file_format import FileRange
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.connectors.file_formats import LinesOfTable
from penstock.table.formats.registry import create_row_format
from penstock.table.types import DataTypes
from penstock.table.types.arrow_types import arrow_array

D = DataTypes
#: The columns, and texts that are values of them or nearly so.
COLUMNS = {
    "s": (D.STRING(), ["", "a b", "é", 'x"y', "a,b", "\\", " 1", "NULL", "0x1F"]),
    "i": (D.INT(), ["0", "-1", "2147483648", "1.5", "1e2", "0x1F", " 7", "+7", "1_0"]),
    "t": (D.TINYINT(), ["1", "-128", "128"]),
    "d": (D.DOUBLE(), ["0.1", "-0", "-0.0", "7", "1e400", "nan", "5e-324", "1d", ".5"]),
    "f": (D.FLOAT(), ["0.1", "16777217", "3.4028236e38", "0.30000001192092896"]),
    "m": (D.DECIMAL(10, 3), ["1.5", "1.2345", "-0", "1e3", "99999999.0", "123456789012"]),
    "b": (D.BOOLEAN(), ["true", "false", "TRUE", "1", " true"]),
    "day": (D.DATE(), ["2024-02-29", "2024-02-30", "0000-01-01", "20240131"]),
    "at": (
        D.TIMESTAMP(3),
        [
            *("2024-01-31 10:11:12", "2024-01-31 10:11:12.5", "2024-01-31T10:11:12"),
            *("2024-01-31 10:11:12.123456", "2024-01-31 24:00:00", "2024-01-31 10:11"),
        ],
    ),
    "us": (D.TIMESTAMP(6), ["2024-01-31 10:11:12.123456", "9999-12-31 23:59:59"]),
    "z": (D.TIMESTAMP_LTZ(3), ["2024-01-31 10:11:12.5Z", "2024-01-31 10:11:12"]),
    "y": (D.BYTES(), ["Cv8=", "!"]),
}
NAMES = list(COLUMNS)
ROW = D.ROW([D.FIELD(name, kind) for name, (kind, _) in COLUMNS.items()])
ODD_JSON = ["null", "NaN", "[1]", '{"s": 1}', '"\\ud800"', '"1"', "1.0", "01"]
ODD_LINES = [b"", b"null", b"[]", b'{"s": "\xff"}', b'{"other": "\xff"}', b'\xef\xbb\xbf{"i": 1}']
ODD_LINES += [b"{} {}", b'{"i": 1, "i": 2}', b'{"other": {"i": ["}"]}}', b'{"d": -0}', b"{}\r"]


def json_values(name):
    _, texts = COLUMNS[name]
    is_text = name not in ("i", "t", "d", "f", "m", "b")
    plain = st.sampled_from([json.dumps(text) if is_text else text for text in texts])
    return plain | plain | plain | st.sampled_from(ODD_JSON)


@st.composite
def json_lines(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(ODD_LINES))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    members = [f'"{name}": {draw(json_values(name))}' for name in names]
    return f"{{{', '.join(members)}}}".encode()


@st.composite
def csv_lines(draw):
    # Most fields have their first text, which is a plain one: else no line would be read.
    odd = draw(st.sets(st.sampled_from(NAMES), max_size=2))
    fields = [
        draw(st.sampled_from([*texts, "NULL", ""])) if name in odd else texts[0]
        for name, (_, texts) in COLUMNS.items()
    ]
    if draw(st.booleans()):
        doubled = [field.replace('"', '""') for field in fields]
        fields = [f'"{field}"' for field in doubled]
    end = draw(st.sampled_from([""] * 9 + [",x", '"', ' "a"', "\r"]))
    return (",".join(fields) + end).encode()


def rows_in_columns(row_format, lines):
    """Return the columns of the row reader."""
    rows = [row for line in lines for _, row in row_format.decode(line)]
    return [arrow_array([row[i] for row in rows], kind) for i, kind in enumerate(ROW.field_types())]


def check(row_format, positions, lines):
    """Compare both readers; the columns may be left to the row reader, but not differ."""
    row_format = row_format if positions is None else row_format.with_columns(sorted(positions))
    found = row_format.columns(lines)
    if found is not None:
        expected = rows_in_columns(row_format, lines)
        for name, column, other in zip(NAMES, found, expected, strict=True):
            assert column.type == other.type, name
            # As texts, for -0.0 is equal to 0.0.
            assert str(column.to_pylist()) == str(other.to_pylist()), name
    return found is not None


POSITIONS = st.none() | st.sets(st.integers(0, len(NAMES) - 1))
TRIES = settings(max_examples=60, deadline=None, database=None)


@TRIES
@given(
    lines=st.lists(json_lines(), min_size=1, max_size=3),
    positions=POSITIONS,
    option=st.sampled_from([None, "ignore-parse-errors", "fail-on-missing-field"]),
)
def test_json_as_the_row_reader(lines, positions, option):
    options = {} if option is None else {option: "true"}
    check(create_row_format("json", "filesystem", ROW, options), positions, lines)


@TRIES
@given(
    lines=st.lists(csv_lines(), min_size=1, max_size=3),
    positions=POSITIONS,
    options=st.sampled_from(
        [{}, {"null-literal": "NULL"}, {"null-literal": ""}, {"disable-quote-character": "true"}]
    ),
)
def test_csv_as_the_row_reader(lines, positions, options):
    check(create_row_format("csv", "filesystem", ROW, options), positions, lines)


@pytest.mark.parametrize("name", ["json", "csv"])
def test_plain_values_of_all_types_are_read_as_columns(name):
    texts = {column: texts[0] for column, (_, texts) in COLUMNS.items()}
    texts["s"] = 'a "b", é'
    row_format = create_row_format(name, "filesystem", ROW, {})
    if name == "json":
        numbers = ("i", "t", "d", "f", "m", "b")
        values = {c: json.loads(text) if c in numbers else text for c, text in texts.items()}
        lines = [json.dumps(values).encode(), json.dumps(dict.fromkeys(NAMES)).encode()]
    else:
        texts["s"] = '"a ""b"", é"'
        lines = [",".join(texts.values()).encode()]
    assert check(row_format, None, lines)
    assert check(row_format, [0, 8], lines)


PLAIN = D.ROW([D.FIELD("n", D.INT()), D.FIELD("s", D.STRING())])
LINES = {
    "json": ('{{"n": {}, "s": "x"}}', '{{"n": "{}", "s": "x"}}'),
    "csv": ("{},x", "{}"),
}


def reading(name, tmp_path, lines):
    """Return a format, and all that it reads of a file in blocks of about a hundred lines."""
    path = tmp_path / "lines"
    path.write_text("".join(f"{line}\n" for line in lines))
    layout = LinesOfTable(PLAIN, PLAIN, create_row_format(name, "filesystem", PLAIN, {}))
    with path.open("rb") as file:
        end = path.stat().st_size
        return layout, list(layout.read(file, FileRange(str(path), 0, end, block_bytes=2048)))


@pytest.mark.parametrize("name", ["json", "csv"])
def test_only_a_block_with_an_unusual_line_is_read_by_rows(name, tmp_path):
    plain, unusual = LINES[name]
    lines = [plain.format(number) for number in range(1000)]
    layout, expected = reading(name, tmp_path, lines)
    assert layout.block_counts.in_rows == 0
    assert layout.block_counts.in_columns == len(expected) > 2
    lines[500] = unusual.format(500)
    layout, found = reading(name, tmp_path, lines)
    assert layout.block_counts.in_rows == 1
    numbers = [n for block in found for part in block.elements for n in part["n"].to_pylist()]
    assert numbers == list(range(1000))


@pytest.mark.parametrize("name", ["json", "csv"])
def test_positions_and_parts_are_those_of_the_row_reader(name, tmp_path):
    # A checkpoint counts the batches of a block that were emitted.
    count = BATCH_ROWS * 2 + 10
    path = tmp_path / "lines"
    path.write_text("".join(f"{LINES[name][0].format(number)}\n" for number in range(count)))
    sizes = []
    for reads_columns in (True, False):
        row_format = create_row_format(name, "filesystem", PLAIN, {})
        if not reads_columns:
            row_format.columns = lambda lines: None
        layout = LinesOfTable(PLAIN, PLAIN, row_format)
        with path.open("rb") as file:
            blocks = list(layout.read(file, FileRange(str(path), 0, path.stat().st_size, 1 << 20)))
        sizes.append([(b.position, b.before, [p.num_rows for p in b.elements]) for b in blocks])
        assert (layout.block_counts.in_columns > 0) == reads_columns
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", ["json", "csv"])
def test_files_of_a_table_with_partitions_alone_hold_lines_without_columns(name, tmp_path):
    path = tmp_path / "s=a" / "lines"
    path.parent.mkdir()
    path.write_text({"json": "{}\n{}\n", "csv": "\n\n"}[name])
    stored, row_type = D.ROW([]), D.ROW([D.FIELD("s", D.STRING())])
    row_format = create_row_format(name, "filesystem", stored, {})
    layout = LinesOfTable(row_type, stored, row_format)
    layout.partition_keys = ("s",)
    with path.open("rb") as file:
        [block] = layout.read(file, FileRange(str(path), 0, path.stat().st_size))
    assert [part["s"].to_pylist() for part in block.elements] == [["a", "a"]]


def test_json_columns_that_a_query_does_not_use_are_not_parsed():
    row_format = create_row_format("json", "filesystem", PLAIN, {})
    line = b'{"n": "no number", "s": "x"}'
    with pytest.raises(FormatError):
        row_format.decode(line)
    pruned = row_format.with_columns([1])
    assert list(pruned.decode(line)) == [(0, [None, "x"])]
    assert [column.to_pylist() for column in pruned.columns([line])] == [[None], ["x"]]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("n INT, s STRING", "t: blocks of lines as columns"),
        ("n INT, s ARRAY<INT>", "t: line by line, as the column 's' has values with parts"),
    ],
)
def test_explain_says_how_lines_are_read(columns, expected, tmp_path):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'json')"
    )
    text = tables.explain_sql("SELECT s, COUNT(n) FROM t GROUP BY s")
    assert expected in text.split("== Sources ==")[1]
