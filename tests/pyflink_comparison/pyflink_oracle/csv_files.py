"""CSV files with randomly changed bytes, and the results of Flink's reader for them.

    python csv_files.py record    with PyFlink's interpreter: writes ``recorded/csv_files.json``

The files are computed from numbers, so the recording contains only the answers.
"""

import importlib
import io
import json
import random
import re
import sys
import tempfile
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "csv_files.json"

SCHEMAS = {
    "plain": "",
    "header": ".set_use_header()",
    "strict header": ".set_use_header().set_strict_headers()",
    "first line left out": ".set_skip_first_data_row()",
    "escapes": ".set_escape_char('\\\\')",
    "comments": ".set_allow_comments()",
    "other characters": ".set_column_separator('\t').set_quote_char(\"'\")",
    "no quotes": ".disable_quote_char()",
    "null": ".set_null_value('a')",
}

FILES = [
    b'1,a\n2,"b, c"\n3,5" disk\n4,"d ""e"" f"\n5,"two\nlines"\n6,\n',
    b'1,a\r\n"2","b"\r\n3, "c"\r\n4,"d" \r\n5,"x\r\ny"\r\n',
    b'b,a\n1,"q"\n#2,"r\n 3,s,\n4,\\"t\\n\n',
    b"1\ta\n2\t'b\tc'\n3\t5' long\n4\t'd''e'\n",
]

BYTES = b'"",,\n\r#\\ \t\'a1;\x00\xc3\xa9'

EMPTY_LINE = re.compile(rb"(^|\n|\r)(\r?\n|\r)")


def files(count=240):
    """Yield the names of schemas, and files for them without empty lines."""
    for name in SCHEMAS:
        dice = random.Random(name)
        made = 0
        while made < count:
            data = bytearray(dice.choice(FILES))
            for _ in range(dice.randrange(4)):
                place = dice.randrange(len(data))
                match dice.randrange(3):
                    case 0:
                        data[place:place] = bytes([dice.choice(BYTES)])
                    case 1:
                        data[place] = dice.choice(BYTES)
                    case 2:
                        del data[place : place + dice.randrange(1, 4)]
            try:
                data.decode()
            except UnicodeDecodeError:
                continue
            if not EMPTY_LINE.search(data):
                made += 1
                yield name, bytes(data)


def schema_of(settings, package):
    """Return the schema in penstock or PyFlink: an integer and a text."""
    csv = importlib.import_module(f"{package}.datastream.formats.csv")
    names = {"builder": csv.CsvSchema.builder()}
    if package == "penstock":
        names["INT"] = importlib.import_module("penstock.common").Types.INT()
    else:
        names["INT"] = importlib.import_module("pyflink.table").DataTypes.INT()
    made = "builder.add_number_column('n', INT).add_string_column('s')"
    return eval(f"{made}{settings}.build()", names)


def own_answer(schema, data, block_bytes):
    """Return the rows of a file, followed by "an error" if there was one."""
    from penstock.datastream.formats.csv import CsvReaderFormat
    from penstock.errors import FormatError
    from penstock.formats.file_format import FileRange

    read = CsvReaderFormat.for_schema(schema).read
    what, found = FileRange("f.csv", 0, len(data), block_bytes), []
    try:
        for batch in read(io.BytesIO(data), what):
            found += [list(row) for row in batch.elements]
    except FormatError:
        found.append("an error")
    return found


def differing(block_bytes):
    """Return the files for which penstock's rows differ from Flink's.

    Flink emits rows before an error one by one, penstock with the others of their block: so errors
    are compared, but not the rows before them.
    """
    recorded = json.loads(RECORDED.read_text())
    schemas = {name: schema_of(settings, "penstock") for name, settings in SCHEMAS.items()}
    numbers = dict.fromkeys(SCHEMAS, 0)
    found = []
    for name, data in files():
        answer = recorded[name][numbers[name]]
        numbers[name] += 1
        own = own_answer(schemas[name], data, block_bytes)
        if "an error" in answer and "an error" in own and own[:-1] == answer[: len(own) - 1]:
            continue
        if own != answer:
            found.append((name, data, answer, own))
    return found


# ---- PyFlink -------------------------------------------------------------------------------------


def record():
    """Record the results of PyFlink, whose reader is Java's, without a job."""
    from py4j.protocol import Py4JJavaError
    from pyflink.datastream.formats.csv import CsvReaderFormat
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    settings = jvm.org.apache.flink.configuration.Configuration()
    file = Path(tempfile.mkdtemp()) / "f.csv"
    path = jvm.org.apache.flink.core.fs.Path(str(file))
    schemas = {name: schema_of(chosen, "pyflink") for name, chosen in SCHEMAS.items()}
    answers = {name: [] for name in SCHEMAS}
    for name, data in files():
        file.write_bytes(data)
        found = []
        answers[name].append(found)
        try:
            form = CsvReaderFormat.for_schema(schemas[name])._j_stream_format
            reader = form.createReader(settings, path.getFileSystem().open(path))
            while (row := reader.read()) is not None:
                number = None if row.isNullAt(0) else row.getInt(0)
                found.append([number, None if row.isNullAt(1) else row.getString(1).toString()])
        except Py4JJavaError:
            found.append("an error")
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in answers.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit(__doc__)
    record()
