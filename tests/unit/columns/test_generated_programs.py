"""Generated programs compute the same over columns, over rows and in plain Python.

Goal: for any schema, batch and chain of `map` and `filter`, the values, their types, their order
and errors are Python's, in columns or not.  Method: each program runs in one operator chain that
receives whole batches, in one that receives their records, and as a loop; metrics show that many
batches were computed in columns.
"""

import random
import struct

import pyarrow as pa
import pytest
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.common.typeinfo import Types
from penstock.network import runtime
from penstock.testing import PipelineTestHarness

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

SEED = "penstock"
ROWS = 220
BATCHES = 2
#: Each compares the results of `BATCHES * ROWS` records in columns and as rows with Python's.
CASES = 120
PARTS = 6
#: `make test` runs a sixth of the cases.
ALL_PARTS = [pytest.param(part, marks=[pytest.mark.slow] * (part >= 1)) for part in range(PARTS)]


def bits(count):
    return [0, 1, -1, 2, 3, 7, -8, 100, 2 ** (count - 1) - 1, -(2 ** (count - 1))]


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


FLOATS = [0.0, -0.0, 0.5, -1.5, 1e300, float("inf"), float("-inf"), float("nan"), 2.0**53]
SINGLES = [0.0, -0.0, 0.5, -1.5, float("inf"), float("nan"), single(0.1), single(3e38)]
TEXTS = ["", "a", "b", "ab", "Ünï", "\0", "a b", "\U0001d518", "zz"]

#: The family, the usual and the rare values of each kind of field.
KINDS = {
    "BYTE": ("integer", range(-9, 10), bits(8)),
    "SHORT": ("integer", range(-99, 100), bits(16)),
    "INT": ("integer", range(-999, 1000), bits(32)),
    "LONG": ("integer", range(-9999, 10_000), bits(64)),
    "FLOAT": ("float", [n / 4 for n in range(-20, 20)], SINGLES),
    "DOUBLE": ("float", [n / 10 for n in range(-50, 50)], FLOATS),
    "STRING": ("text", TEXTS, TEXTS),
    "BOOLEAN": ("truth", [True, False], [True, False]),
}


class Program:
    """One generated program and its batches."""

    def __init__(self, number):
        self.chooser = chooser = random.Random(f"{SEED}/{number}")
        self.kinds = [chooser.choice(list(KINDS)) for _ in range(chooser.randint(1, 6))]
        self.names = [f"f_{at}" for at in range(len(self.kinds))]
        types = [getattr(Types, kind)() for kind in self.kinds]
        self.is_row = chooser.random() < 0.8
        self.declared = Types.ROW_NAMED(self.names, types) if self.is_row else Types.TUPLE(types)
        self.is_rare = chooser.random() < 0.2
        self.nullable = [chooser.random() < 0.03 for _ in self.kinds]
        families = [KINDS[kind][0] for kind in self.kinds]
        self.texts, self.stages = [], []
        for _ in range(chooser.randint(1, 3)):
            families = self.add(families)

    def field(self, family, families, style):
        """Return the text of a field or a constant of a family."""
        chooser = self.chooser
        places = [at for at, each in enumerate(families) if each == family]
        if not places or chooser.random() < 0.2:
            constants = {
                "integer": ["0", "1", "3", "-7", "100"],
                "float": ["0.5", "-2.0", "1e10"],
                "text": ["'a'", "'b'", "''"],
                "truth": ["True", "False"],
            }
            return chooser.choice(constants[family])
        at = chooser.choice(places)
        named = {"name": f"r.f_{at}", "item": f"r['f_{at}']", "place": f"r[{at}]"}
        return f"v{at}" if style == "unpacked" else named[style]

    def number(self, families, style, depth=2):
        chooser = self.chooser
        if not depth or chooser.random() < 0.4:
            return self.field(chooser.choice(["integer", "float", "integer"]), families, style)
        one, other = (self.number(families, style, depth - 1) for _ in range(2))
        kind = chooser.random()
        if kind < 0.7:
            return f"({one} {chooser.choice('+-*')} {other})"
        if kind < 0.8:
            return f"({one} {chooser.choice(['//', '%', '/'])} {chooser.choice(['3', '-7', '2'])})"
        if kind < 0.9:
            return f"(-{one})"
        return f"({one} if {self.truth(families, style, depth - 1)} else {other})"

    def truth(self, families, style, depth=2):
        chooser = self.chooser
        kind = chooser.random()
        if depth and kind < 0.3:
            one, other = (self.truth(families, style, depth - 1) for _ in range(2))
            return f"({one} {chooser.choice(['and', 'or'])} {other})"
        if depth and kind < 0.4:
            return f"(not {self.truth(families, style, depth - 1)})"
        if kind < 0.5:
            return f"({self.field('text', families, style)} in ('a', 'ab', 'zz'))"
        if kind < 0.6:
            return self.field("truth", families, style)
        compared = chooser.choice(["<", "<=", "==", "!=", ">", ">="])
        of = self.text if kind < 0.7 else self.number
        return f"({of(families, style, 0)} {compared} {of(families, style, 0)})"

    def text(self, families, style, depth=1):
        one = self.field("text", families, style)
        if depth and self.chooser.random() < 0.3:
            return f"({one} + {self.field('text', families, style)})"
        return one

    def add(self, families):
        """Add a stage for records of some families; return those of its results."""
        chooser = self.chooser
        is_first = not self.stages
        styles = ["name", "item", "place", "unpacked"] if is_first and self.is_row else ["place"]
        style = chooser.choice([*styles, "unpacked"])
        is_filter = chooser.random() < 0.4
        if is_filter:
            made, body = families, self.truth(families, style)
        else:
            made = chooser.choices(["integer", "text", "truth"], k=chooser.randint(1, 4))
            of = {"integer": self.number, "text": self.text, "truth": self.truth}
            body = f"({', '.join(of[each](families, style) for each in made)},)"
            # A computed number may be of either kind.
            made = ["any" if each == "integer" else each for each in made]
        if style == "unpacked":
            names = ", ".join(f"v{at}" for at in range(len(families)))
            code = f"def function(r):\n    {names}, = r\n    return {body}\n"
        else:
            code = f"def function(r):\n    return {body}\n"
        space = {}
        exec(code, space)
        self.texts.append(code)
        self.stages.append((space["function"], is_filter))
        return ["integer" if each == "any" else each for each in made]

    def batch(self):
        chooser, columns = self.chooser, []
        for kind, is_nullable in zip(self.kinds, self.nullable, strict=True):
            _, usual, rare = KINDS[kind]
            values = chooser.choices(rare if self.is_rare else usual, k=ROWS)
            if is_nullable:
                values = [None if chooser.random() < 0.1 else value for value in values]
            columns.append(values)
        schema = batch_schema(self.declared)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        data = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return ColumnBatch(data, self.declared, pa.array(range(ROWS), pa.int64()))

    def called(self, values):
        """Return Python's results up to the first error, and the class of the error."""
        found = []
        for value in values:
            try:
                for function, is_filter in self.stages:
                    if not is_filter:
                        value = function(value)
                    elif not function(value):
                        break
                else:
                    found.append(value)
            except Exception as error:
                return found, type(error)
        return found, None

    def chain(self):
        harness = PipelineTestHarness()
        stream = harness.source("rows", self.declared)
        for function, is_filter in self.stages:
            stream = stream.filter(function) if is_filter else stream.map(function)
        harness.sink("found", stream)
        return harness

    def computed(self, batches, *, in_columns):
        """Return the results and errors of batches, and how many were computed in columns."""
        found = []
        with self.chain() as harness:
            source = harness._input("rows")
            for batch in batches:
                before = len(harness.values("found"))
                error = None
                try:
                    if in_columns:
                        harness._opened().operators[0].output.collect_batch(batch)
                    else:
                        for value, timestamp in batch.records():
                            source.process(value, timestamp)
                except Exception as raised:
                    error = type(raised)
                found.append((harness.values("found")[before:], error))
            counts = harness.metrics("Filter" if self.stages[0][1] else "Map")
        return found, counts["numBatchesInColumns"]


def shown(outcome):
    values, error = outcome
    return list(map(repr, values)), error


@pytest.mark.parametrize("part", ALL_PARTS)
def test_columns_rows_and_python_agree(part):
    comparisons = batches_in_columns = 0
    for number in range(part, CASES, PARTS):
        program = Program(number)
        batches = [program.batch() for _ in range(BATCHES)]
        expected = [shown(program.called(batch.rows())) for batch in batches]
        for in_columns in (True, False):
            outcomes, computed = program.computed(batches, in_columns=in_columns)
            found = list(map(shown, outcomes))
            assert found == expected, (number, in_columns, program.declared, *program.texts)
            comparisons += BATCHES * ROWS
            batches_in_columns += computed
            assert in_columns or not computed
    assert comparisons * PARTS >= 100_000
    assert batches_in_columns > CASES / PARTS / 2, "of twice as many as there are cases"
