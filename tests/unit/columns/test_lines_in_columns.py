"""Blocks of JSON lines and CSV read as batches of columns have the rows of the row reader."""

import json
from itertools import cycle

import pytest

pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.columns.column_batch import ColumnBatch
from penstock.common.typeinfo import Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.files.reader import _BatchSource
from penstock.connectors.files.splits import SplitElements, whole_file
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import FormatError
from penstock.formats.dead_letters import dead_letter_tag
from penstock.taskexecutor.compiled import END_OF_DATA, Output

FIELDS = {
    "n": (Types.LONG(), ["1", "-5", "9223372036854775808", "1.5", '"7"', "null"]),
    "b": (Types.BYTE(), ["7", "128", "null"]),
    "d": (Types.DOUBLE(), ["0.5", "-0", "3", "1e400", "NaN"]),
    "t": (Types.BOOLEAN(), ["true", "false", '"true"']),
    "s": (Types.STRING(), ['"a"', '"é\\n"', "5", '"\\ud800"', "null", '"\xff"']),
}
ROW = Types.ROW_NAMED(list(FIELDS), [kind for kind, _ in FIELDS.values()])
COUNT = 2000
NUMBERS = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])


def json_format(row_type, **options):
    builder = JsonRowDeserializationSchema.builder().type_info(row_type)
    return StreamFormat.line_format(builder.build(), **options)


def csv_format():
    schema = CsvSchema.builder().add_number_column("n").add_string_column("s").build()
    return CsvReaderFormat.for_schema(schema)


def records(layout, path):
    """Return all records of a file, and whether any came in columns; or the error."""
    elements = SplitElements(whole_file(str(path), path.stat().st_size, layout), layout, None)
    found, in_columns = [], False
    try:
        while not elements.is_exhausted:
            _, taken = elements.take(1000)
            in_columns = in_columns or isinstance(taken, ColumnBatch)
            found += taken.rows() if isinstance(taken, ColumnBatch) else taken
    except FormatError as error:
        return str(error), in_columns
    finally:
        elements.close()
    return [repr(row.as_dict()) for row in found], in_columns


@st.composite
def lines(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", " ", "null", "[]", "{}\r", "{} {}", '{"n": 1, "n": 2}']))
    names = draw(st.lists(st.sampled_from(list(FIELDS)), unique=True))
    members = [f'"{name}": {draw(st.sampled_from(FIELDS[name][1]))}' for name in names]
    return f"{{{', '.join(members)}}}"


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(lines(), max_size=3))
def test_json_lines_as_the_row_reader(tmp_path_factory, given_lines):
    path = tmp_path_factory.mktemp("lines") / "a.json"
    path.write_bytes("\n".join(given_lines).encode("latin-1"))
    layout = json_format(ROW)
    in_columns = layout.in_columns()
    assert in_columns is not layout
    assert records(in_columns, path)[0] == records(layout, path)[0]


WRITTEN = {
    "json": (lambda: json_format(NUMBERS), '{{"n": {}, "s": "x"}}', '{{"n": "{}", "s": "x"}}'),
    "csv": (csv_format, "{},x", '{},"x" '),
}


@pytest.mark.parametrize("name", ["json", "csv"])
@pytest.mark.parametrize("limit", [77, 5000])
def test_each_row_is_read_once_after_a_checkpoint_anywhere(name, limit, tmp_path, monkeypatch):
    make, plain, unusual = WRITTEN[name]
    monkeypatch.setattr("penstock.connectors.files.splits._BLOCK_BYTES", 2048)
    path = tmp_path / "lines"
    written = [plain.format(number) for number in range(COUNT)]
    written[COUNT // 2] = unusual.format(COUNT // 2)
    path.write_text("".join(f"{line}\n" for line in written))
    layouts = [make().in_columns(), make()]
    split, found = whole_file(str(path), path.stat().st_size, layouts[0]), []
    turns = cycle(layouts)
    while len(found) < COUNT:
        # Another reader goes on each time, by columns or by rows in turn.
        layout = next(turns)
        elements = SplitElements(split, layout, None)
        _, taken = elements.take(limit)
        found += [row.n for row in (taken.rows() if isinstance(taken, ColumnBatch) else taken)]
        split = elements.rest()
        elements.close()
    assert found == list(range(COUNT))
    assert layouts[0].block_counts.in_columns > 1


def test_a_block_with_dead_letters_is_read_line_by_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"n": 1}\n{"n": "x"}\n{"n": 3}\n')
    layout = json_format(NUMBERS, dead_letters=dead_letter_tag("bad")).in_columns()
    elements = SplitElements(whole_file(str(path), path.stat().st_size, layout), layout, None)
    assert not elements.are_columns
    assert elements.take(5)[0] == 3
    elements.close()
    assert layout.block_counts.in_rows == 1


class Rows(Output):
    """The records, those of batches included, and the dead letters."""

    def __init__(self):
        self.main, self.dead = [], []

    def collect(self, value, timestamp):
        del timestamp
        self.main.append(value)

    def collect_batch(self, batch):
        assert len(batch) > 0
        super().collect_batch(batch)

    def collect_side(self, tag_id, value, timestamp):
        del tag_id, timestamp
        self.dead.append(value)


class Errors:
    count = 0

    def inc(self):
        self.count += 1


@pytest.mark.parametrize("bad_line", [0, COUNT // 2, COUNT - 1])
@pytest.mark.parametrize(
    "policy", [{"dead_letters": dead_letter_tag("bad")}, {"skip_malformed": True}]
)
def test_dead_letters_between_blocks_in_columns(bad_line, policy, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.connectors.files.splits._BLOCK_BYTES", 2048)
    path = tmp_path / "a.json"
    written = [f'{{"n": {number}, "s": "x"}}' for number in range(COUNT)]
    written[bad_line] = '{"n": "bad"}'
    path.write_text("\n".join(written))
    layout = json_format(NUMBERS, **policy).in_columns()
    source = _BatchSource()
    source.output, source.errors = Rows(), Errors()
    source.has_dead_letters, source.batch_rows = True, 1024
    source.elements = SplitElements(
        whole_file(str(path), path.stat().st_size, layout), layout, None
    )
    while source.emit_next(COUNT) != END_OF_DATA:
        pass
    assert [row.n for row in source.output.main] == [n for n in range(COUNT) if n != bad_line]
    assert len(source.output.dead) == ("dead_letters" in policy)
    assert source.errors.count == 1
    assert layout.block_counts.in_rows == 1
    assert layout.block_counts.in_columns > 1


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (json_format(NUMBERS), "records: batches of columns"),
        (csv_format(), "records: batches of columns"),
        (
            json_format(Types.ROW_NAMED(["day"], [Types.SQL_DATE()])),
            "records: one by one, as JSON has no column of the field 'day'",
        ),
    ],
)
def test_explain_says_how_lines_are_read(layout, expected, tmp_path):
    environment = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(layout, str(tmp_path)).build()
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    stream.map(lambda row: row[0], output_type=Types.LONG()).print()
    assert expected in environment.explain()


def test_rows_without_fields_stay_rows(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{}\n{}\n")
    layout = json_format(Types.ROW_NAMED([], [])).in_columns()
    assert records(layout, path) == (["{}", "{}"], False)


def test_a_subclass_of_the_schema_reads_its_lines_itself():
    class Own(JsonRowDeserializationSchema):
        def deserialize(self, message):
            return json.loads(message)

    schema = Own()
    schema._type_info = NUMBERS
    layout = StreamFormat.line_format(schema)
    assert layout.in_columns() is layout
