"""Programs over columns compute what Python computes for each record, or give up."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import NO_TIMESTAMP, ColumnBatch
from penstock.columns.evaluation import ColumnProgram, unsupported_operation
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.expressions.evaluation import Evaluation, Stage
from penstock.network import runtime

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

ROW = Types.ROW_NAMED(
    ["a", "b", "x", "s", "f"],
    [Types.LONG(), Types.INT(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN()],
)
SCHEMA = batch_schema(ROW)
NAMES = ROW.get_field_names()


def batch_of(rows, timestamps=NO_TIMESTAMP):
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return ColumnBatch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), ROW, timestamps)


def program_of(*stages, types=(ROW,)):
    decided = Evaluation().decide([Stage(f, is_filter, types) for f, is_filter in stages])
    assert unsupported_operation(decided) is None
    return ColumnProgram(decided)


def called(stages, rows):
    """Return Python's results for some rows: the numbers and values of the rows that pass."""
    found = []
    for number, row in enumerate(rows):
        value = row
        for function, is_filter in stages:
            if is_filter:
                if not function(value):
                    break
            else:
                value = function(value)
        else:
            found.append((number, value))
    return found


ROWS = [
    (1, 2, 0.5, "one", True),
    (-7, 3, -0.0, "two", False),
    (2**40, -4, float("inf"), "", True),
    (0, 1, 1e300, "three", False),
    (-(2**52), 5, 2.25, "ünë", True),
]


def unpacked(r):
    a, b, x, s, f = r
    return (a + b, x, s) if f else (a - b, x, s)


LAMBDAS = [
    unpacked,
    lambda r: r.a,
    lambda r: (r.a, r["b"], r[3]),
    lambda r: (r.a + r.b, r.a - 1, r.b * r.b, -r.a),
    lambda r: (r.a // r.b, r.a % r.b, r.a // 7, r.a % -7),
    lambda r: (r.x * 2 + r.b, r.x - r.b, r.b / 4, r.x / 2),
    lambda r: (r.a < r.b, r.a == r.b, r.x >= r.a, r.s < "p", r.s != "one"),
    lambda r: r.a > 0 and r.b > 1,
    lambda r: r.a > 0 or r.f,
    lambda r: not r.f,
    lambda r: r.s if r.f else r.s + "!",
    lambda r: (r.b if r.a > 0 else r.a, r.s),
    lambda r: r.s in ("one", "two"),
    lambda r: r.b not in (1, 2, 3),
    lambda r: "n" in r.s,
    lambda r: (r.s, 1, 0.5, "c", True),
    lambda r: r.a // r.b if r.b > 0 else 0,
    lambda r: 0 < r.b <= 3,
    lambda r: "many" if r.a > 2 else "few",
]


def assert_same(values, expected):
    assert [repr(value) for value in values] == [repr(value) for value in expected]


@pytest.mark.parametrize("number", range(len(LAMBDAS)))
def test_lambdas(number):
    function = LAMBDAS[number]
    made = batch_of(ROWS, pa.array([10, 20, 30, 40, 50], pa.int64()))
    program = program_of((function, False))
    found = program.evaluated(made)
    assert (program.batches, program.given_up, program.rows) == (1, 0, 5)
    assert_same(found.rows(), [function(row) for row in made.rows()])
    assert found.timestamp_list() == made.timestamp_list()


@pytest.mark.parametrize(
    "condition",
    [lambda r: r.a > 0, lambda r: r.f and r.s != "one", lambda r: r.b, lambda r: r.s,
     lambda r: False, lambda r: True, lambda r: r.a == 3],
)  # fmt: skip
def test_filters_keep_records_and_timestamps(condition):
    made = batch_of(ROWS, pa.array([10, 20, 30, 40, 50], pa.int64()))
    stages = [(condition, True)]
    found = program_of(*stages).evaluated(made)
    expected = called(stages, made.rows())
    assert_same(found.rows(), [value for _, value in expected])
    assert found.timestamp_list() == [10 * number + 10 for number, _ in expected]


def test_filters_and_maps_one_after_the_other():
    stages = [
        (lambda r: r.b > 1, True),
        (lambda r: (r.b, r.s), False),
        (lambda t: t[0] < 5, True),
        (lambda t: t[1], False),
    ]
    made = batch_of(ROWS)
    assert_same(
        program_of(*stages).evaluated(made).rows(), [v for _, v in called(stages, made.rows())]
    )


def test_branches_fail_only_where_python_does():
    """A division by zero in a branch that no row takes is no error."""
    made = batch_of([(6, 0, 0.0, "", True), (6, 2, 0.0, "", True)])
    program = program_of((lambda r: r.a // r.b if r.b != 0 else -1, False))
    assert program.evaluated(made).rows() == [-1, 3]


@pytest.mark.parametrize(
    ("function", "row"),
    [
        (lambda r: r.a + 1, (2**63 - 1, 1, 0.0, "", True)),
        (lambda r: r.a * r.a, (2**40, 1, 0.0, "", True)),
        (lambda r: -r.a, (-(2**63), 1, 0.0, "", True)),
        (lambda r: r.a // r.b, (1, 0, 0.0, "", True)),
        (lambda r: r.a / 3, (2**60 + 1, 1, 0.0, "", True)),
        (lambda r: r.x < r.a, (2**60 + 1, 1, 0.0, "", True)),
        (lambda r: r.x / r.b, (1, 0, 1.0, "", True)),
        (lambda r: r.a + 1, (None, 1, 0.0, "", True)),
        (lambda r: r.f + 1, (1, 1, 0.0, "", True)),
        (lambda r: r.s + r.a, (1, 1, 0.0, "", True)),
        (lambda r: r.a == r.s, (1, 1, 0.0, "", True)),
        (lambda r: r.x % 2, (1, 1, 0.5, "", True)),
        (lambda r: r.a if r.f else r.s, (1, 1, 0.5, "", True)),
    ],
)
def test_inexact_computations_are_abandoned(function, row):
    other = (5, 7, 1.5, "s", False)
    program = program_of((function, False))
    assert program.evaluated(batch_of([row, other])) is None
    assert (program.batches, program.given_up, program.rows) == (0, 1, 0)


def test_nulls_pass_where_nothing_computes_with_them():
    made = batch_of([(None, 1, None, None, None), (2, 3, 0.5, "s", True)])
    stages = [(lambda r: (r.a, r.s, r.a is None), False)]
    assert_same(
        program_of(*stages).evaluated(made).rows(), [v for _, v in called(stages, made.rows())]
    )


FACTOR = 3


BRANCHES = [
    lambda r: (1 if r.a > 0 else 0, 1 if r.b > 1 and r.a < 5 else 0, r.b if r.f else r.a),
    lambda r: "x" if r.a > 100 else "y" if r.a > 0 else "z" if r.b == 3 else "none",
    lambda r: (r.a > 0 and r.b > 1 and r.f, r.a > 0 or r.b > 3 or r.f),
    lambda r: (r.a, 1) if r.f else (r.b, 2),
    lambda r: (r.x if r.b > 2 else 0.5, r.s if r.f and r.a == 1 else "-"),
    lambda r: not (r.a > 0 and (r.f or r.b < 2)),
]


@pytest.mark.parametrize("number", range(len(BRANCHES)))
def test_branches_are_joined(number):
    """Batches are not split: both branches are evaluated, and each row selects its value."""
    function = BRANCHES[number]
    made = batch_of(ROWS)
    program = program_of((function, False))
    frames = []
    run = program._run
    program._run = lambda *given: (frames.append(given), run(*given))
    assert_same(program.evaluated(made).rows(), [function(row) for row in made.rows()])
    assert len(frames) == 1


def test_globals_are_looked_up_for_each_batch():
    program = program_of((lambda r: r.b * FACTOR, False))
    made = batch_of(ROWS)
    try:
        assert program.evaluated(made).rows() == [row[1] * 3 for row in ROWS]
        globals()["FACTOR"] = 5
        assert program.evaluated(made).rows() == [row[1] * 5 for row in ROWS]
        globals()["FACTOR"] = [5]
        assert program.evaluated(made) is None
    finally:
        globals()["FACTOR"] = 3


def test_a_function_with_other_code_is_called():
    def function(r):
        return r.a

    program = program_of((function, False))
    function.__code__ = (lambda r: r.b).__code__
    assert program.evaluated(batch_of(ROWS)) is None


def test_a_program_that_always_gives_up_is_not_tried_for_ever():
    program = program_of((lambda r: r.a + 1, False))
    for _ in range(20):
        program.evaluated(batch_of([(None, 1, 0.0, "", True)]))
    assert program.evaluated(batch_of(ROWS)) is None
    assert program.given_up == 21


def test_expressions():
    function = computed(
        as_tuple(field("a") * 2, field("s").str.length(), field("x") > 1), "map", [ROW]
    )
    made = batch_of(ROWS)
    found = program_of((function, False)).evaluated(made)
    assert_same(found.rows(), [function(row) for row in made.rows()])


TEXTUAL = [
    field("s").str.lower(),
    field("s").str.upper(),
    field("s").str.starts_with("t"),
    field("s").str.ends_with("e"),
    field("s").str.contains("n"),
    field("s").str.length(),
    field("s").str.find("e"),
    field("s").str.replace("e", "--"),
    field("s").str.slice(1, 3),
    field("s").str.slice(2),
    field("s").str.split("e")[0],
    abs(field("a")),
    abs(field("x")),
    field("b").cast(Types.STRING()),
    field("b").cast(Types.DOUBLE()),
]


@pytest.mark.parametrize("number", range(len(TEXTUAL)))
def test_functions_of_expressions(number):
    function = computed(TEXTUAL[number], "map", [ROW])
    made = batch_of([row for row in ROWS if row[3].isascii()])
    found = program_of((function, False)).evaluated(made)
    assert_same(found.rows(), [function(row) for row in made.rows()])
    other = program_of((function, False)).evaluated(batch_of(ROWS))
    if other is not None:
        assert_same(other.rows(), [function(row) for row in batch_of(ROWS).rows()])


def test_elements_that_no_list_has_and_whole_lists_are_given_up():
    for expression in (field("s").str.split("w")[1], field("s").str.split("w")):
        function = computed(expression, "map", [ROW])
        assert program_of((function, False)).evaluated(batch_of(ROWS)) is None


def test_timestamps():
    decided = Evaluation().decide([Stage(lambda r, t: r.a + t, types=(ROW,))], 2)
    program = ColumnProgram(decided)
    assert program.stamped(batch_of(ROWS, 5)).timestamp_list() == [row[0] + 5 for row in ROWS]
    decided = Evaluation().decide([Stage(lambda r, t: r.x, types=(ROW,))], 2)
    assert ColumnProgram(decided).stamped(batch_of(ROWS, 5)) is None


def test_operations_without_a_kernel_are_named():
    decided = Evaluation().decide([Stage(lambda r: r.a**r.b, types=(ROW,))])
    assert unsupported_operation(decided) == "**"


LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.5, float("nan")])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["one"])
RECORDS = st.tuples(LONGS, INTS, FLOATS, TEXTS, st.booleans())

NUMBERS = st.recursive(
    st.sampled_from(["r.a", "r.b", "r.x", "0", "1", "-3", "7", "0.5", "r[1]", "r['a']"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda each: f"(-{each})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} > 0 else {p[2]})"),
    ),
    max_leaves=5,
)
COMPARISONS = ["<", "<=", "==", "!=", ">", ">="]
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(NUMBERS, st.sampled_from(COMPARISONS), NUMBERS).map(" ".join),
        st.sampled_from(["r.f", "r.s < 'one'", "r.s == 'one'", "'o' in r.s", "r.b in (1, 2)"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda each: f"(not {each})"),
    ),
    max_leaves=3,
)


def attempted(function):
    try:
        return function()
    except (ZeroDivisionError, OverflowError):
        return None


@settings(max_examples=400, deadline=None)
@given(NUMBERS, CONDITIONS, CONDITIONS, st.lists(RECORDS, max_size=6))
def test_generated_programs(number, condition, kept, records):
    """Every program that does not give up returns what Python returns."""
    source = f"lambda r: ({number}, r.s if {condition} else 'no', {condition})"
    stages = [(eval(f"lambda r: {kept}"), True), (eval(source), False)]
    decided = Evaluation().decide([Stage(f, is_filter, (ROW,)) for f, is_filter in stages])
    if not hasattr(decided, "instructions"):
        return
    made = batch_of(records, pa.array(range(len(records)), pa.int64()))
    found = ColumnProgram(decided).evaluated(made)
    expected = attempted(lambda: called(stages, made.rows()))
    if found is None:
        return
    assert expected is not None, "Python fails"
    assert_same(found.rows(), [value for _, value in expected])
    assert found.timestamp_list() == [place for place, _ in expected]


def test_the_generated_programs_are_mostly_computed():
    """The test above is worth little if most programs give up."""
    made = batch_of([(5, 2, 0.5, "one", True), (-9, 1, 2.5, "", False)])
    texts = ["r.a % 7", "(r.b if r.a > 0 else -3)", "(r.x * r.b)", "(r.a / 7)"]
    for text in texts:
        program = program_of((eval(f"lambda r: ({text}, r.s)"), False))
        assert program.evaluated(made) is not None, text


def test_results_have_types_of_python():
    found = program_of((lambda r: (r.b, r.x, r.s, r.f), False)).evaluated(batch_of(ROWS)).rows()
    assert [type(value) for value in found[0]] == [int, float, str, bool]
    assert math.copysign(1, found[1][1]) == -1
    assert [
        type(row) for row in program_of((lambda r: True, True)).evaluated(batch_of(ROWS)).rows()
    ] == [Row] * 5
