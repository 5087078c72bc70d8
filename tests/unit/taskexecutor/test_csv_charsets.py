"""CSV files of any charset are read as text, and again from any position.

Method: one table is written in several charsets, some without a one-byte line end; it is read in
parts, of which the later ones start at a snapshot, and compared.
"""

import gzip

import pytest
from penstock.common import Types
from penstock.common.types import Row
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.errors import InvalidProgramError, SourceError
from unit.taskexecutor.test_file_formats import elements, source
from unit.taskexecutor.test_source_positions import run

SCHEMA = CsvSchema.builder().add_number_column("n", Types.INT()).add_string_column("s").build()
ROWS = [Row(n=n, s=f"é Ц {n}") for n in range(30)]
TEXT = "".join(f"{row['n']},{row['s']}\n" for row in ROWS)
CHARSETS = ["utf-8", "UTF-16", "utf-16-le", "utf-32", "utf-8-sig", "koi8-r"]


def written(path, charset):
    text = TEXT.replace("é", "e") if charset == "koi8-r" else TEXT
    path.write_bytes(text.encode(charset))
    return [Row(n=row["n"], s=row["s"].replace("é", "e")) for row in ROWS] if text != TEXT else ROWS


@pytest.mark.parametrize("charset", CHARSETS)
def test_files_of_a_charset_are_read(tmp_path, charset):
    expected = written(tmp_path / "a.csv", charset)
    made = CsvReaderFormat.for_schema(SCHEMA, charset=charset)
    assert elements(source(made, tmp_path / "a.csv")).values == expected


@pytest.mark.parametrize("charset", ["UTF-16", "koi8-r"])
@pytest.mark.parametrize("count", [0, 1, 13, 30])
def test_reading_continues_where_it_was(tmp_path, charset, count):
    expected = written(tmp_path / "a.csv", charset)
    operator = source(CsvReaderFormat.for_schema(SCHEMA, charset=charset), tmp_path / "a.csv")
    (first,), snapshots = run(operator, None, [count])
    (rest,), _ = run(operator, snapshots, [None])
    assert (first, rest) == (expected[:count], expected[count:])


def test_a_compressed_file_has_a_charset_too(tmp_path):
    (tmp_path / "a.csv.GZ").write_bytes(gzip.compress(TEXT.encode("utf-16")))
    made = CsvReaderFormat.for_schema(SCHEMA, charset="utf-16")
    assert elements(source(made, tmp_path)).values == ROWS


def test_path_columns_stand_beside_the_text(tmp_path):
    path = tmp_path / "a.csv"
    expected = written(path, "utf-16")
    made = CsvReaderFormat.for_schema(SCHEMA, charset="utf-16")
    found = elements(source(made, path, path_column="from")).values
    assert [row["s"] for row in found] == [row["s"] for row in expected]
    assert {row["from"] for row in found} == {str(path)}


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,\x90\n")
    made = CsvReaderFormat.for_schema(SCHEMA, charset="cp932")
    assert elements(source(made, tmp_path)).values[0]["s"] == "\ufffd"


def test_a_file_in_another_charset_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,a\n")
    made = CsvReaderFormat.for_schema(SCHEMA, charset="utf-16")
    with pytest.raises(SourceError, match=r"a\.csv does not have the charset .* start with BOM"):
        elements(source(made, tmp_path))


@pytest.mark.parametrize("charset", ["latin-17", 3])
def test_an_unknown_charset_is_refused_when_the_program_is_built(charset):
    with pytest.raises(InvalidProgramError, match=f"unknown charset {charset!r}"):
        CsvReaderFormat.for_schema(SCHEMA, charset=charset)
