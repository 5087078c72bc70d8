"""Values of the types that programs use, through functions, keys and sinks."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from pyflink_oracle.outcomes import error_text


def _people(f: Any, env: Any = None) -> Any:
    t = f.Types
    kind = t.ROW_NAMED(
        ["name", "age", "tags", "at"],
        [t.STRING(), t.INT(), t.LIST(t.STRING()), t.SQL_TIMESTAMP()],
    )
    at = datetime.datetime(2024, 2, 29, 12, 30)
    given = [("ann", 30, ["x", "y"], at), ("bob", 17, [], at), ("cid", 64, ["z"], at)]
    stream = (env or f.env()).from_collection(range(3), t.INT())
    return stream.map(lambda n: f.Row(*given[n]), kind)


def fields_of_rows(f):
    return f.collect(
        _people(f).map(lambda r: [r.name, r["age"], r[2], r.at.year, len(r), "name" in r.as_dict()])
    )


def rows_that_are_changed_and_made(f):
    t = f.Types
    kind = t.ROW_NAMED(["name", "adult"], [t.STRING(), t.BOOLEAN()])
    made = _people(f).map(lambda r: f.Row(name=r.name.upper(), adult=r.age >= 18), kind)

    def older(row):
        row.age = row.age + 1
        row["name"] = row["name"] + "!"
        return row

    people = _people(f)
    return {
        "made": f.collect(made),
        "changed": f.collect(people.map(older, people.get_type())),
        "dictionaries": f.collect(made.map(lambda r: sorted(r.as_dict().items()))),
        "filtered": f.collect(made.filter(lambda r: r.adult)),
    }


def rows_of_kinds_on_their_way(f):
    t = f.Types
    kind = t.ROW([t.INT(), t.STRING()])
    kinds = [f.RowKind.INSERT, f.RowKind.UPDATE_BEFORE, f.RowKind.UPDATE_AFTER, f.RowKind.DELETE]

    def make(n):
        return f.Row.of_kind(kinds[n], n, "x")

    rows = f.ints(0, 1, 2, 3).map(make, kind)
    return {
        "rows": f.collect(rows),
        "kinds": f.collect(rows.map(lambda r: str(r.get_row_kind()))),
        "kept": f.collect(rows.filter(lambda r: r.get_row_kind() != f.RowKind.DELETE)),
        "keyed": f.sorted(rows.key_by(lambda r: r[0]).map(lambda r: r, kind)),
    }


def projections_of_tuples(f):
    t = f.Types
    kind = t.TUPLE([t.STRING(), t.INT(), t.DOUBLE()])
    stream = f.env().from_collection([("a", 1, 0.5), ("b", 2, 1.5)], kind)
    return {
        str(fields): f.collected(lambda fields=fields: stream.project(*fields))
        for fields in ((0,), (2, 0), (1, 1), (0, 1, 2))
    } | {"type": str(stream.project(2, 0).get_type())}


def tuples_within_tuples(f):
    t = f.Types
    inner = t.TUPLE([t.INT(), t.STRING()])
    kind = t.TUPLE([inner, t.LIST(inner), t.MAP(t.STRING(), inner)])
    stream = f.ints(1, 2).map(lambda n: ((n, "i"), [(n, "l")] * n, {"k": (n, "m")}), kind)
    return f.collect(stream), f.collect(stream.map(lambda v: (v[0][1], v[1][-1], v[2]["k"][0])))


def texts_that_are_split_and_joined(f):
    t = f.Types
    lines = f.env().from_collection(["To be, or not", "", "to be: ü", "a\tb\nc"], t.STRING())
    words = lines.flat_map(lambda line: line.lower().replace(",", "").split(), t.STRING())
    pairs = words.map(lambda w: (w, 1), t.TUPLE([t.STRING(), t.INT()]))
    return {
        "words": f.collect(words),
        "counts": f.collect(pairs.key_by(lambda v: v[0]).sum(1)),
        "lengths": f.collect(lines.map(len, t.INT())),
    }


def numbers_of_every_width(f):
    t = f.Types
    cases = {
        "byte": (t.BYTE(), [127, -128]),
        "short": (t.SHORT(), [32767, -32768]),
        "int": (t.INT(), [2**31 - 1, -(2**31)]),
        "long": (t.LONG(), [2**63 - 1, -(2**63)]),
        "float": (t.FLOAT(), [0.5, -1e30]),
        "double": (t.DOUBLE(), [0.1, -1e300, 5e-324]),
        "decimal": (t.BIG_DEC(), [Decimal("1.10"), Decimal("-12345678901234567890.5")]),
        "boolean": (t.BOOLEAN(), [True, False]),
    }
    return {
        name: [
            f.collected(lambda kind=kind, given=given: f.env().from_collection(given, kind)),
            f.collected(
                lambda kind=kind, given=given: (
                    f.env()
                    .from_collection(given, kind)
                    .key_by(lambda v: v, kind)
                    .map(lambda v: v, kind)
                )
            ),
        ]
        for name, (kind, given) in cases.items()
    }


def numbers_beyond_their_width(f):
    t = f.Types
    cases = {
        "byte": (t.BYTE(), 128),
        "short": (t.SHORT(), -32769),
        "int": (t.INT(), 2**31),
        "long": (t.LONG(), 2**63),
    }
    return {
        name: f.collected(lambda kind=kind, value=value: f.ints(1).map(lambda _: value, kind))
        for name, (kind, value) in cases.items()
    }


def dates_on_their_way(f):
    t = f.Types
    cases = {
        "date": (t.SQL_DATE(), datetime.date(1969, 12, 31)),
        "time": (t.SQL_TIME(), datetime.time(23, 59, 58)),
        "timestamp": (t.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)),
        "instant": (t.INSTANT(), f.Instant(1, 500_000_000)),
    }
    return {
        name: [
            f.collect(f.ints(1).map(lambda _, value=value: value, kind)),
            f.collect(
                f.ints(1)
                .map(lambda _, value=value: value, kind)
                .key_by(lambda v: v, kind)
                .map(lambda v: v, kind)
            ),
        ]
        for name, (kind, value) in cases.items()
    }


def containers_that_are_empty_or_nested(f):
    t = f.Types
    cases = {
        "list": (t.LIST(t.LIST(t.INT())), [[], [[1], []]]),
        "map": (t.MAP(t.STRING(), t.LIST(t.INT())), [{}, {"a": [1], "b": []}]),
        "map of maps": (t.MAP(t.INT(), t.MAP(t.INT(), t.STRING())), [{1: {2: "x"}}]),
        "array": (t.PRIMITIVE_ARRAY(t.DOUBLE()), [[], [0.5]]),
        "objects": (t.BASIC_ARRAY(t.STRING()), [["a", ""], []]),
        "bytes": (t.PRIMITIVE_ARRAY(t.BYTE()), [b"", b"\x00a"]),
    }
    return {
        name: f.collected(
            lambda kind=kind, given=given: f.ints(*range(len(given))).map(lambda n: given[n], kind)
        )
        for name, (kind, given) in cases.items()
    }


def nothing_in_fields(f):
    t = f.Types
    row = t.ROW_NAMED(["a", "b"], [t.STRING(), t.INT()])
    return {
        "row": f.collected(lambda: f.ints(1).map(lambda _: f.Row(None, None), row)),
        "collected": f.collected(lambda: f.env().from_collection([f.Row(None, 1)], row)),
        "pickled": f.collected(lambda: f.ints(1).map(lambda _: (None, [None], {"a": None}))),
        "used": f.collected(
            lambda: f.ints(1).map(lambda _: f.Row(None, 2), row).map(lambda r: r.a is None)
        ),
    }


class Color(enum.Enum):
    """A class of the program's own module."""

    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    """A class of the program's own module."""

    x: int
    y: float = 0.0


class Pair(NamedTuple):
    """A class of the program's own module."""

    left: str
    right: int


def classes_of_the_program(f):
    def parts(value):
        if isinstance(value, Point):
            return "point", value.x, value.y
        if isinstance(value, Color):
            return "color", value.name
        return "pair", value.left, value.right

    def make(n):
        return [Point(n), Point(n, n / 2), Color.RED, Color(2), Pair("a", n)][n]

    made = f.ints(*range(5)).map(make)
    return {
        "parts": f.collect(made.map(parts)),
        "shuffled": f.sorted(made.rebalance().map(parts)),
        "keyed": f.sorted(made.key_by(lambda v: type(v).__name__).map(parts)),
    }


def sets_and_other_containers(f):
    def make(n):
        return [{n, 1}, frozenset([n]), bytearray(b"x"), range(n), complex(n, 1), 2**100][n]

    made = f.ints(*range(6)).map(make)
    return f.collect(made), f.collect(made.map(lambda v: type(v).__name__))


def types_of_derived_streams(f):
    t = f.Types
    pairs = f.pairs(("a", 1))
    keyed = pairs.key_by(lambda v: v[0], t.STRING())
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    streams = {
        "map": pairs.map(lambda v: v),
        "typed": pairs.map(lambda v: v[1], t.INT()),
        "filter": pairs.filter(lambda v: True),
        "flat_map": pairs.flat_map(lambda v: [v[0]], t.STRING()),
        "sum": keyed.sum(1),
        "reduce": keyed.reduce(lambda a, b: a),
        "window": keyed.window(windows).reduce(lambda a, b: a),
        "union": pairs.union(pairs),
        "rebalance": pairs.rebalance(),
        "project": pairs.project(1),
        "keys": keyed.map(lambda v: v),
    }
    return {name: str(stream.get_type()) for name, stream in streams.items()}


def texts_of_types(f):
    t = f.Types
    kinds = [
        t.STRING(), t.BYTE(), t.BOOLEAN(), t.SHORT(), t.INT(), t.LONG(), t.FLOAT(), t.DOUBLE(),
        t.CHAR(), t.BIG_INT(), t.BIG_DEC(), t.SQL_DATE(), t.SQL_TIME(), t.SQL_TIMESTAMP(),
        t.INSTANT(), t.PICKLED_BYTE_ARRAY(), t.LIST(t.INT()), t.MAP(t.INT(), t.STRING()),
        t.ROW([t.INT()]), t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()]), t.TUPLE([t.INT()]),
        t.PRIMITIVE_ARRAY(t.INT()), t.BASIC_ARRAY(t.STRING()), t.OBJECT_ARRAY(t.INT()),
    ]  # fmt: skip
    return [str(kind) for kind in kinds], [kind == kinds[n] for n, kind in enumerate(kinds)]


def _file(f: Any, make: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        try:
            env = f.env()
            sink = f.FileSink.for_row_format(folder, f.Encoder.simple_string_encoder())
            config = (
                f.OutputFileConfig.builder()
                .with_part_prefix("pre")
                .with_part_suffix(".txt")
                .build()
            )
            make(env).sink_to(sink.with_output_file_config(config).build())
            env.execute()
        except Exception as error:
            return error_text(error)
        parts = [path for path in Path(folder).rglob("*") if path.is_file()]
        names = {(path.name[:3], path.suffix) for path in parts}
        lines = sorted(line for path in parts for line in path.read_text().splitlines())
        return sorted(names), lines


def files_of_values(f):
    t = f.Types
    kind = t.ROW_NAMED(["a", "b"], [t.STRING(), t.DOUBLE()])
    return {
        "texts": _file(f, lambda env: env.from_collection(["x", "y z"], t.STRING())),
        "pairs": _file(f, lambda env: f.pairs(("a", 1), env=env)),
        "rows": _file(f, lambda env: f.ints(1, env=env).map(lambda n: f.Row("r", n / 4), kind)),
        "json": _file(f, lambda env: f.ints(1, env=env).map(lambda n: f'{{"n": {n}}}', t.STRING())),
    }


def files_that_are_read(f):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("one\ntwo\n\nthree")
        Path(folder, "b.txt").write_text("four\r\nfive\n")
        Path(folder, ".hidden").write_text("never\n")
        Path(folder, "_also").write_text("never\n")
        Path(folder, "sub").mkdir()
        Path(folder, "sub", "c.txt").write_text("six\n")
        source = f.FileSource.for_record_stream_format(f.StreamFormat.text_line_format(), folder)
        strategy = f.WatermarkStrategy.no_watermarks()
        stream = f.env().from_source(source.build(), strategy, "files")
        return {
            "lines": f.sorted(stream),
            "lengths": f.sorted(stream.map(len, f.Types.INT())),
            "type": str(stream.get_type()),
        }


def sequences_of_numbers(f):
    def numbers(first, last, parallelism):
        source = f.NumberSequenceSource(first, last)
        strategy = f.WatermarkStrategy.no_watermarks()
        stream = f.env(parallelism).from_source(source, strategy, "numbers", f.Types.LONG())
        return f.sorted(stream.map(lambda n: n * 2, f.Types.LONG()))

    return [numbers(1, 5, 1), numbers(-3, 8, 3), numbers(7, 7, 2)]
