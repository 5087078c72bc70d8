"""CSV is read and written as Flink 2.3's schemas do, except for messages of several lines."""

import datetime
import io
import pickle
import struct
from decimal import Decimal

import pytest
from penstock.common import Row, Types
from penstock.datastream.formats.csv import (
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.file_format import FileRange

FIELDS = Types.ROW_NAMED(
    ["i", "s", "d", "b"], [Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]
)


def reader(declared=FIELDS, **settings):
    builder = CsvRowDeserializationSchema.Builder(declared)
    for name, value in settings.items():
        getattr(builder, name)(value)
    return builder.build()


def writer(declared, **settings):
    builder = CsvRowSerializationSchema.Builder(declared)
    for name, value in settings.items():
        getattr(builder, name)(*(() if value is None else (value,)))
    return builder.build()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("1,a,2.5,true", (1, "a", 2.5, True)),
        ("1,a,2.5,true\n", (1, "a", 2.5, True)),
        (" 1 , a , 2.5 , true ", (1, " a ", 2.5, True)),
        ('"1","a,b","2",true', (1, "a,b", 2.0, True)),
        ('1,"a""b",2,yes', (1, 'a"b', 2.0, False)),
        ('1,"",2,true', (1, "", 2.0, True)),
        ('1,"a\nb",2,true', (1, "a\nb", 2.0, True)),
        ('1,a"b,2,true', (1, 'a"b', 2.0, True)),
    ],
)
def test_lines_become_rows(text, fields):
    for schema in (reader(), pickle.loads(pickle.dumps(reader()))):
        assert tuple(schema.deserialize(text.encode())) == fields


@pytest.mark.parametrize(
    ("text", "reason", "ignored"),
    [
        ("1,a,2", "4 fields are expected, but there are 3", (1, "a", 2.0, None)),
        ("1,a,2,true,5", "4 fields are expected, but there are 5", None),
        ("", "it is empty", None),
        (",a,2,true", "the field 'i': '' is not a whole number", (None, "a", 2.0, True)),
        ("1.5,a,2,true", "the field 'i'", (None, "a", 2.0, True)),
        ("3000000000,a,2,true", "the field 'i': 3000000000 does not", (None, "a", 2.0, True)),
        ('1,"ab,2,true', "field 2 begins with a quote that is not closed", None),
        ("1,a,2,true\n2,b,3,true", "several lines", None),
        (b"1,\xff,2,true", "utf-8", None),
    ],
)
def test_errors_name_the_field_or_it_is_none(text, reason, ignored):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(FormatError, match=f"{reason}.*the CSV is"):
        reader().deserialize(data)
    found = reader(set_ignore_parse_errors=True).deserialize(data)
    assert (None if found is None else tuple(found)) == ignored


def test_settings_of_readers():
    with_null = reader(set_null_literal="null").deserialize(b"null,null,2,true")
    assert tuple(with_null) == (None, None, 2.0, True)
    assert tuple(reader(set_null_literal="").deserialize(b",,2,true")) == (None, None, 2.0, True)
    commented = reader(set_allow_comments=True)
    assert commented.deserialize(b"#x,1") is None
    assert commented.deserialize(b"1,a#b,2,true")["s"] == "a#b"
    assert reader(set_escape_character="\\").deserialize(b"1,a\\,b,2,true")["s"] == "a,b"
    assert reader(set_quote_character="'").deserialize(b"1,'a,b',2,true")["s"] == "a,b"
    assert reader(set_field_delimiter=";").deserialize(b"1;a,b;2;true")["s"] == "a,b"
    nested = Types.ROW(
        [Types.INT(), Types.OBJECT_ARRAY(Types.INT()), Types.ROW([Types.STRING(), Types.INT()])]
    )
    row = Row(f0=1, f1=[2, 3], f2=Row(f0="x", f1=5))
    assert reader(nested).deserialize(b"1,2;3,x;5") == row
    assert reader(nested, set_array_element_delimiter=":").deserialize(b"1,2:3,x:5") == row


TEXTS = Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN()])


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (("a,b", 1, 2.5, False), '"a,b",1,2.5,false'),
        (('a"b', 1, 1e20, True), '"a""b",1,1.0E20,true'),
        ((" a ", 1, 2.0, True), '" a ",1,2.0,true'),
        (("a\nb", 1, 2.0, True), '"a\nb",1,2.0,true'),
        ((None, None, None, None), ",,,"),
        (("#a", 1, 2.0, True), '"#a",1,2.0,true'),
        (("é-_.;", 1, 1e-05, True), "é-_.;,1,1.0E-5,true"),
    ],
)
def test_rows_become_lines(fields, line):
    schema = writer(TEXTS)
    assert schema.serialize(Row(*fields)).decode() == line + "\n"
    assert pickle.loads(pickle.dumps(schema)).serialize(fields).decode() == line + "\n"


def test_numbers_have_the_digits_of_their_type():
    """A FLOAT that was written and read in between is 0.10000000149011612 in Python."""
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    schema = writer(Types.ROW([Types.FLOAT(), Types.DOUBLE(), Types.DOUBLE(), Types.FLOAT()]))
    assert schema.serialize((single, single, 1, 1e10)) == b"0.1,0.10000000149011612,1.0,1.0E10\n"


def test_settings_of_writers():
    row = ("a,b", 1, 2.0, None)
    assert writer(TEXTS, disable_quote_character=None).serialize(row) == b"a,b,1,2.0,\n"
    assert writer(TEXTS, set_line_delimiter="\r\n").serialize(row) == b'"a,b",1,2.0,\r\n'
    assert writer(TEXTS, set_null_literal="n/a").serialize(row) == b'"a,b",1,2.0,n/a\n'
    assert writer(TEXTS, set_quote_character="'").serialize(row) == b"'a,b',1,2.0,\n"
    assert writer(TEXTS, set_field_delimiter=";").serialize(row) == b'"a,b";1;2.0;\n'
    arrays = Types.ROW([Types.OBJECT_ARRAY(Types.INT())])
    assert writer(arrays).serialize(([1, 2],)) == b"1;2\n"
    assert writer(arrays, set_array_element_delimiter="/").serialize(([1, 2],)) == b"1/2\n"
    assert writer(arrays, set_line_delimiter="").serialize(([1],)) == b"1"
    escaping = writer(TEXTS, set_escape_character="\\").serialize(('a"\\,', 1, 2.0, True))
    assert reader(TEXTS, set_escape_character="\\").deserialize(escaping)["f0"] == 'a"\\,'


def test_times_decimals_and_bytes():
    declared = Types.ROW(
        [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(),
         Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.LONG())]
    )  # fmt: skip
    row = Row(
        datetime.date(2020, 1, 2), datetime.time(10, 11, 12),
        datetime.datetime(2020, 1, 2, 10, 11, 12, 500_000), Decimal("1.10"), b"\1\2", [1, 2],
    )  # fmt: skip
    line = writer(declared).serialize(row)
    assert line == b'2020-01-02,10:11:12,"2020-01-02 10:11:12.5",1.10,AQI=,1;2\n'
    assert list(reader(declared).deserialize(line)) == list(row)


def test_invalid_values_and_settings_are_rejected():
    with pytest.raises(FormatError, match="the field 'f1': 'x' is not a whole number; the row is"):
        writer(TEXTS).serialize(("a", "x", 1.0, True))
    with pytest.raises(FormatError, match="'10:00:00\\+01:00' is not a time"):
        reader(Types.ROW([Types.SQL_TIME()])).deserialize(b"10:00:00+01:00")
    with pytest.raises(InvalidProgramError, match="one character"):
        CsvRowDeserializationSchema.Builder(FIELDS).set_field_delimiter("ab")
    with pytest.raises(InvalidProgramError, match="line feed"):
        CsvRowSerializationSchema.Builder(FIELDS).set_line_delimiter("x")
    with pytest.raises(InvalidProgramError, match="lines represent rows"):
        CsvRowDeserializationSchema.Builder(Types.INT())
    with pytest.raises(InvalidProgramError, match="CSV cannot represent"):
        reader(Types.ROW([Types.MAP(Types.STRING(), Types.INT())]))
    with pytest.raises(InvalidProgramError, match="also call set_use_header"):
        CsvSchema.builder().add_string_column("s").set_strict_headers().build()


def read_file(data: bytes, adjust, block_bytes: int, **policy):
    builder = CsvSchema.builder().add_string_column("s").add_number_column("n", Types.INT())
    adjust(builder)
    found = CsvReaderFormat.for_schema(builder.build(), **policy)
    what = FileRange("f.csv", 0, len(data), block_bytes)
    return [row for batch in found.read(io.BytesIO(data), what) for row in batch.elements]


DIALECTS = {
    "plain": lambda b: b,
    "escapes": lambda b: b.set_escape_char("\\"),
    "no quotes": lambda b: b.disable_quote_char(),
    "no quotes, escapes": lambda b: b.disable_quote_char().set_escape_char("\\"),
    "quotes": lambda b: b.set_quote_char("'"),
    "separator": lambda b: b.set_column_separator("\t"),
    "null": lambda b: b.set_null_value("NULL"),
    "null is empty": lambda b: b.set_null_value(""),
    "null is a number": lambda b: b.set_null_value("1"),
}

LINES = [
    b"a,1,1.5",
    b"a\\,b,1,1",
    b'"a\\"b",1,1',
    b'"a""b",1,1',
    b"'a,b',1,1",
    b"a\t1\t1",
    b"NULL,NULL,NULL",
    b",,",
    b'"",1,1',
    b" a , 1 , 1.5 ",
    b'"a",1,1\n\n\nb,2,2',
    b"a,1,1\r\nb,2,2\r",
    b"\xef\xbb\xbfa,1,1",
    b'a"b,1,1',
    b'"a" ,1,1',
    b'"a"b,1,1',
    b'a,"1","1.5"',
    b"0x1,1,1",
    b"a,0x1,1",
    b"a, -0X1,1",
    b"a,1,nan",
    b"a,1,NaN",
    b"a,1,inf",
    b"a,1,Infinity",
    b"a,1,1e400",
    b"a,+1,+1.0",
    b"a,1.0,1",
    b"a,2147483648,1",
    b"a,1,1,",
    b"a,1",
    b'"a\nb",1,1',
    b"a\\\nb,1,1",
    b"a,1,1_0",
    b"\xff,1,1",
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_block_is_read_as_its_lines_are(dialect, monkeypatch):
    """pyarrow reads a block as the rules read each of its lines."""

    def found(data):
        try:
            return repr(
                read_file(
                    data,
                    lambda b: DIALECTS[dialect](b.add_number_column("d", Types.DOUBLE())),
                    1000,
                )
            )
        except FormatError as error:
            return str(error)

    at_once = {line: found(line + b"\n") for line in LINES}
    monkeypatch.setattr(CsvReaderFormat, "_table", lambda *_: None)
    assert {line: found(line + b"\n") for line in LINES} == at_once


def test_lines_that_look_dangerous_are_still_read_at_once(monkeypatch):
    monkeypatch.setattr(CsvReaderFormat, "_slow_rows", None)
    data = b'"0x1 ""x""",1\n"a",2\n'
    assert read_file(data, lambda _: None, 1000) == [Row(s='0x1 "x"', n=1), Row(s="a", n=2)]


@pytest.mark.parametrize("block_bytes", [1, 8, 1000])
def test_quotes_behind_escaped_escapes_close_their_text(block_bytes):
    """Also line by line, which a comment requires."""
    data = b'# a comment\n"a\\\\",1\nb,2\n"c\\"\nd",3\n'

    def adjust(builder):
        builder.set_escape_char("\\").set_allow_comments()

    rows = read_file(data, adjust, block_bytes)
    assert rows == [Row(s="a\\", n=1), Row(s="b", n=2), Row(s='c"\nd', n=3)]


class CountingFile(io.BytesIO):
    bytes_read = 0

    def read(self, size=-1):
        data = super().read(size)
        self.bytes_read += len(data)
        return data


LITERAL = b"".join(b'%d" disk,%d\n' % (n, n) for n in range(3000))


@pytest.mark.parametrize("block_bytes", [64, 4096])
def test_a_quote_within_an_unquoted_field_harms_nothing(block_bytes):
    """The rows are unchanged, and no more of the file is in memory than a block and a row."""
    schema = CsvSchema.builder().add_string_column("s").add_number_column("n", Types.INT())
    data = b'5" disk,0\n' + LITERAL + b'"two\nlines",7\n'
    file = CountingFile(data)
    read = CsvReaderFormat.for_schema(schema.build(), skip_malformed=True).read
    rows, ahead = [], 0
    for batch in read(file, FileRange("f.csv", 0, len(data), block_bytes)):
        rows += batch.elements
        ahead = max(ahead, file.bytes_read - batch.position)
    assert [row["n"] for row in rows] == [0, *range(3000), 7]
    assert (rows[0]["s"], rows[-1]["s"]) == ('5" disk', "two\nlines")
    assert ahead < 2 * block_bytes + 64


@pytest.mark.parametrize("block_bytes", [16, 1000])
@pytest.mark.parametrize(
    "bad", [b'"never closed,0', b'"closed "badly,0', b'x,"0', b'"a"b"c,0', b'"",""0']
)
def test_a_malformed_line_takes_no_other_with_it(bad, block_bytes):
    """Even if its quote is open, up to the next quote or to the end of the file."""
    good = [b"x,1", *(b"y,%d" % n for n in range(2, 9)), b'"two\nlines",9', b"z,10"]
    for place in range(len(good) + 1):
        lines = [*good[:place], bad, *good[place:]]
        rows = read_file(b"\n".join(lines), lambda _: None, block_bytes, skip_malformed=True)
        numbers = [row["n"] for row in rows if isinstance(row, Row)]
        assert numbers == list(range(1, 11)), place


def test_columns_are_read_by_position_unless_they_are_to_be_found_by_name():
    data = b"n,s\n7,8\n"
    assert read_file(data, lambda b: b.set_use_header(), 1000) == [Row(s="7", n=8)]
    by_name = [Row(s="8", n=7)]
    for block_bytes in (1, 1000):
        for wide in (data, b'x,n,"s"\n0,7,8\n', b"n,s,s\n7,8,9\n"):
            found = read_file(wide, lambda b: b.set_use_header().set_reorder_columns(), block_bytes)
            assert found == by_name, wide
    with pytest.raises(FormatError, match=r"line 1 of f\.csv: the columns are .*'t'.*, not .*'s'"):
        read_file(b"n,t\n7,8\n", lambda b: b.set_use_header().set_reorder_columns(), 1000)
    with pytest.raises(FormatError, match=r"line 1 of f\.csv: the columns are"):
        read_file(data, lambda b: b.set_use_header().set_strict_headers(), 1000)
    with pytest.raises(InvalidProgramError, match="call set_use_header, too"):
        read_file(data, lambda b: b.set_reorder_columns(), 1000)
    with pytest.raises(InvalidProgramError, match="exclude each other"):
        read_file(
            data, lambda b: b.set_use_header().set_reorder_columns().set_strict_headers(), 1000
        )


def test_lines_that_end_with_a_carriage_return_are_read_in_blocks_and_ranges():
    data = b"".join(b"%d,%d\r" % (n, n) for n in range(500))
    assert len(read_file(data, lambda _: None, 64)) == 500
    schema = CsvSchema.builder().add_string_column("s").add_number_column("n", Types.INT())
    found = CsvReaderFormat.for_schema(schema.disable_quote_char().build())
    for ends in (data, data.replace(b"\r", b"\r\n")):
        for cut in range(1, 40):
            ranges = [FileRange("f", 0, cut, 16), FileRange("f", cut, len(ends), 64)]
            rows = [
                row["n"]
                for what in ranges
                for batch in found.read(io.BytesIO(ends), what)
                for row in batch.elements
            ]
            assert rows == list(range(500)), cut


def test_every_batch_is_found_again_from_its_position():
    """A block of lines has several batches, so that each has few rows."""
    data = "".join(f"{n},{n}\n" for n in range(5000)).encode()
    schema = CsvSchema.builder().add_string_column("s").add_number_column("n", Types.INT())
    found = CsvReaderFormat.for_schema(schema.disable_quote_char().build())

    def batches(start):
        what = FileRange("f.csv", start, len(data), 20_000)
        return list(found.read(io.BytesIO(data), what))

    rows = [row for batch in batches(0) for row in batch.elements]
    assert rows == [Row(s=str(n), n=n) for n in range(5000)]
    assert max(len(batch.elements) for batch in batches(0)) < 2000
    emitted = 0
    for batch in batches(0):
        again = [row for other in batches(batch.position) for row in other.elements]
        assert again[batch.before :] == rows[emitted:]
        emitted += len(batch.elements)
