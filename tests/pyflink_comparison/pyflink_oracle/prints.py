"""The lines that ``print()`` writes for values of many types, and those of PyFlink.

python prints.py record    with PyFlink's interpreter: writes ``recorded/prints.json``
"""

import contextlib
import datetime
import decimal
import importlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "prints.json"

DAY, TIME = "datetime.date(2020, 1, 2)", "datetime.time(3, 4, 5)"
MOMENT, FRACTION = (
    "datetime.datetime(2020, 1, 2, 3, 4, 5)",
    "datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)",
)
TENTH = "decimal.Decimal('0.10')"

BASIC = {
    "BOOLEAN()": ["True", "False"],
    "BYTE()": ["-1"],
    "SHORT()": ["7"],
    "INT()": ["7"],
    "LONG()": ["1 << 40"],
    "FLOAT()": ["0.1", "1e10", "1.0"],
    "DOUBLE()": ["0.1", "1e10", "1.0", "-0.0", "float('nan')", "float('inf')"],
    "CHAR()": ["'x'"],
    "BIG_INT()": ["1 << 70"],
    "BIG_DEC()": [TENTH, "decimal.Decimal('1E+3')"],
    "STRING()": ["'oslo'", "''", "'a,b'"],
    "INSTANT()": ["Instant(1577934245, 0)", "Instant(1577934245, 678000000)"],
    "SQL_DATE()": [DAY],
    "SQL_TIME()": [TIME],
    "SQL_TIMESTAMP()": [MOMENT, FRACTION],
}
"""Values by type; each is printed alone, and within other types."""

WHOLE = {
    **BASIC,
    "PRIMITIVE_ARRAY(BYTE())": ["b'ab'"],
    "PRIMITIVE_ARRAY(INT())": ["[1, 2]"],
    "BASIC_ARRAY(STRING())": ["['a', None]"],
    "OBJECT_ARRAY(ROW([INT()]))": ["[Row(1)]"],
    "LIST(INT())": ["[1, 2]", "[]"],
    "LIST(STRING())": ["['a', 'b']"],
    "LIST(BOOLEAN())": ["[True]"],
    "LIST(TUPLE([INT(), STRING()]))": ["[(1, 'a')]"],
    "LIST(ROW([INT(), STRING()]))": ["[Row(1, 'a')]"],
    "LIST(DOUBLE())": ["[0.1, 1e10]"],
    "MAP(STRING(), INT())": ["{'a': 1}", "{}"],
    "MAP(STRING(), DOUBLE())": ["{'a': 1e10, 'b': None}"],
    "MAP(INT(), BOOLEAN())": ["{1: True}"],
    "MAP(STRING(), ROW([INT()]))": ["{'a': Row(1)}"],
    "MAP(STRING(), LIST(INT()))": ["{'a': [1]}"],
    "MAP(STRING(), SQL_TIMESTAMP())": ["{'a': " + MOMENT + "}"],
}

NESTED = {
    "PRIMITIVE_ARRAY(BYTE())": ["b'ab'"],
    "PRIMITIVE_ARRAY(INT())": ["[1, 2]"],
    "PRIMITIVE_ARRAY(DOUBLE())": ["[0.1, 1e10]"],
    "BASIC_ARRAY(STRING())": ["['a', None]"],
    "OBJECT_ARRAY(ROW([INT()]))": ["[Row(1)]"],
    "LIST(STRING())": ["['a', 'b']"],
    "LIST(DOUBLE())": ["[1e10]"],
    "LIST(ROW([INT()]))": ["[Row(1)]"],
    "LIST(SQL_TIMESTAMP())": ["[" + MOMENT + "]"],
    "MAP(STRING(), INT())": ["{'a': 1}"],
    "MAP(STRING(), BOOLEAN())": ["{'a': True, 'b': None}"],
    "MAP(STRING(), SQL_DATE())": ["{'a': " + DAY + "}"],
    "TUPLE([INT(), INT()])": ["(1, 2)"],
    "TUPLE([STRING(), BOOLEAN()])": ["('a', True)"],
    "TUPLE([INT()])": ["(1,)"],
    "ROW([INT(), BOOLEAN()])": ["Row(1, True)"],
    "ROW_NAMED(['a', 'b'], [INT(), STRING()])": ["Row(1, 'x')", "Row(a=1, b='x')"],
}

ROWS = {
    "ROW([STRING(), BOOLEAN(), DOUBLE(), INT()])": ["Row('oslo', True, 0.1, None)"],
    "ROW([STRING()])": ["Row('a')", "Row(None)", "Row('')"],
    "ROW_NAMED(['a', 'b'], [INT(), STRING()])": ["Row(1, 'x')", "Row(a=1, b='x')"],
    "ROW([INT(), STRING()])": [
        *(f"Row.of_kind(RowKind.{kind}, 1, 'a')" for kind in ("INSERT", "UPDATE_BEFORE")),
        *(f"Row.of_kind(RowKind.{kind}, 1, 'a')" for kind in ("UPDATE_AFTER", "DELETE")),
    ],
    "ROW([DOUBLE()])": ["Row(1)"],
    "ROW([INT()])": ["Row(True)"],
}

UNDECLARED = [
    *("'oslo'", "7", "True", "0.1", "1e20", "b'ab'", "bytearray(b'ab')", "(1, 'a')", "[1, 'a']"),
    *("{'a': 1}", "{1}", "Row(1, 'a')", "Row(a=1, b='x')", "Row.of_kind(RowKind.DELETE, 1)"),
    *(DAY, TIME, MOMENT, TENTH, "Instant(1577934245, 0)", "('x', Row(1))", "1 << 70"),
]


def cases():
    """Yield each case once: the type, the value, and the source of the stream, as expressions."""
    return list(dict.fromkeys(_all_cases()))


def _all_cases():
    for way in ("map", "collection"):
        for kinds in (WHOLE, ROWS):
            for kind, values in kinds.items():
                yield from ((kind, value, way) for value in values)
        for kind, values in {**BASIC, **NESTED}.items():
            for value in values:
                yield f"ROW([{kind}])", f"Row({value})", way
                yield f"TUPLE([{kind}, INT()])", f"({value}, 1)", way
        yield "TUPLE([STRING(), INT()])", "(None, 1)", way
        yield from (("", value, way) for value in UNDECLARED)


def key_of(case):
    """Return the name of a case in the recording."""
    kind, value, way = case
    return f"{way}: {value} as {kind}" if kind else f"{way}: {value}"


def names_of(package):
    """Return the names for the expressions of cases, in penstock or PyFlink."""
    common = importlib.import_module(f"{package}.common")
    types = {name: getattr(common.Types, name) for name in dir(common.Types) if name.isupper()}
    instant = importlib.import_module(f"{package}.common.time").Instant
    names = {"Row": common.Row, "RowKind": common.RowKind, "Instant": instant}
    return {**types, **names, "datetime": datetime, "decimal": decimal}


def print_all(env, package, numbered):
    """Add a stream for each case to a job, which prints its number in front of its value."""
    names = names_of(package)
    for number, (kind, value, way) in numbered:
        declared = eval(kind, names) if kind else None
        made = eval(value, names)
        if way == "collection":
            stream = env.from_collection([made], declared)
        else:
            stream = env.from_collection([0]).map(lambda _, made=made: made, declared)
        stream.print(str(number))


def lines_of(printed):
    """Return the line of each number, without addresses of Java objects."""
    found = re.findall(r"^(\d+)> (.*)$", printed, re.MULTILINE)
    return {int(number): re.sub(r"@[0-9a-f]+$", "@", line) for number, line in found}


MEANT = {
    "an array is printed as its elements, not as a Java address": r"^\w+: \S.* as \w+_ARRAY\(",
    "a CHAR, and a BIG_INT from `from_collection`, are unchanged": r"CHAR\(\)|BIG_INT\(\)",
}
"""Intended differences: the reason, and the cases as a regular expression of their key."""


def recorded():
    """Return the line of each case in PyFlink; None if it failed there."""
    return json.loads(RECORDED.read_text())


# ---- penstock ------------------------------------------------------------------------------------


def own_lines(size=60):
    """Return the line of each case."""
    from penstock.common import Configuration
    from penstock.datastream import StreamExecutionEnvironment

    every = list(enumerate(cases()))
    written = io.StringIO()
    for start in range(0, len(every), size):
        in_process = Configuration.from_dict({"execution.target": "in-process"})
        env = StreamExecutionEnvironment.get_execution_environment(in_process)
        env.set_parallelism(1)
        with contextlib.redirect_stdout(written):
            print_all(env, "penstock", every[start : start + size])
            env.execute()
    return {key_of(case): lines_of(written.getvalue()).get(number) for number, case in every}


def differing():
    """Return the cases whose line differs from PyFlink's, if PyFlink has one."""
    own = own_lines()
    return {
        key: (answer, own[key])
        for key, answer in recorded().items()
        if answer is not None and own[key] != answer
    }


def compare():
    """Print unintended differences; exit with 1 if there are any."""
    found = differing()
    unmeant = {
        key: lines
        for key, lines in found.items()
        if not any(re.search(cases, key) for cases in MEANT.values())
    }
    for key, (answer, own) in unmeant.items():
        print(f"{key}\n    PyFlink   {answer}\n    penstock  {own}")
    unseen = [
        why for why, cases in MEANT.items() if not any(re.search(cases, key) for key in found)
    ]
    for why in unseen:
        print(f"no difference any more: {why}")
    return not unmeant and not unseen


# ---- PyFlink -------------------------------------------------------------------------------------


def ask(numbers):
    """Run some cases as one job of PyFlink."""
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(1)
    every = cases()
    print_all(env, "pyflink", [(number, every[number]) for number in numbers])
    env.execute()


def answers(numbers):
    """Return the lines of some cases; if the job fails, run each case alone."""
    done = subprocess.run(
        [sys.executable, __file__, "ask", *map(str, numbers)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return lines_of(done.stdout)
    if len(numbers) == 1:
        return {numbers[0]: None}
    half = len(numbers) // 2
    return {**answers(numbers[:half]), **answers(numbers[half:])}


def record(size=12):
    """Record PyFlink's lines."""
    every = cases()
    found = {}
    for start in range(0, len(every), size):
        part = answers(list(range(start, min(start + size, len(every)))))
        print(part, flush=True)
        found.update(part)
    lines = [
        f"{json.dumps(key_of(case))}: {json.dumps(found.get(number))}"
        for number, case in enumerate(every)
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record"]:
            record()
        case ["compare"]:
            sys.exit(not compare())
        case ["ask", *given]:
            ask(list(map(int, given)))
        case _:
            sys.exit(__doc__)
