"""Functions that only compute return the same results and errors, evaluated or called."""

import sys
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime
from penstock.taskexecutor.compiled import (
    MIN_TIMESTAMP,
    ChainingOutput,
    FilterOperator,
    FunctionSink,
    FusedOperator,
    MapOperator,
)
from penstock.taskexecutor.task.fusion import Fusion

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

EVALUATION = Evaluation()
FACTOR = 7
VALUES = [0, 1, 7, -3, 2**62, -(2**63), 2**70, True, 1.5, float("inf"), "a", "abc", b"x", None]
VALUES += [(), (1,), (1, 2), (2, 1), (1.5, "x"), ((1, 2), 3), [3], {"k": 1}, {1: 2}, {}]


def branching(x):
    a, b = x
    if a > b:
        return a - b
    c = a * 2
    c += 1
    return (c, b)


def joining(x):
    y = 1 if x else 2
    z = x or y
    return [y, z]


def chained(x):
    return 0 < x <= 10 and x != 5


EXPRESSIONS = [
    lambda x: x,
    lambda x: x + 1,
    lambda x: x * 2 - 3 // (x - 1),
    lambda x: (x % 10, x),
    lambda x: x & 1 == 0,
    lambda x: -x,
    lambda x: ~x,
    lambda x: not x,
    lambda x: x << 2,
    lambda x: x >> 70,
    lambda x: x | 3 ^ x,
    lambda x: x**2,
    lambda x: x / 2,
    lambda x: x // -3,
    lambda x: x % -3,
    lambda x: x // 0,
    lambda x: x * 10**18,
    lambda x: x - 2**63,
    lambda x: x[0],
    lambda x: x[-1],
    lambda x: x["k"],
    lambda x: x[1] + 1,
    lambda x: x[0][1],
    lambda x: (x if x else (1,))[0],
    lambda x: [x],
    lambda x: (x, (x, 1)),
    lambda x: x if x else 0,
    lambda x: x and 1,
    lambda x: x or "a",
    lambda x: x is None,
    lambda x: x is not None and x,
    lambda x: x in (1, "a", 2.5),
    lambda x: x not in "abc",
    lambda x: x == "a",
    lambda x: "%s" % x,  # noqa: UP031  an operator as any other
    lambda x: FACTOR * x,
    lambda x: missing + x,  # noqa: F821
    (lambda k: lambda x: x + k)(5),
    branching,
    joining,
    chained,
]


def outcome_of(function, *arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error), str(error)
    return type(result), repr(result)


@pytest.mark.parametrize("function", EXPRESSIONS)
def test_an_expression_gives_what_the_function_gives(function):
    assert EVALUATION.program(function, 1) is not None
    evaluated = EVALUATION.without_call(function, 1)
    assert evaluated is not function
    for value in VALUES:
        assert outcome_of(evaluated, value) == outcome_of(function, value), value


def outside(x):
    return x


def generator(x):
    yield x


def looping(x):
    while x > 10:
        x -= 10
    return x


def guarded(x):
    try:
        return x + 1
    except TypeError:
        return None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: outside(x),
        lambda x: x.real,
        lambda x: [y for y in x],  # noqa: C416
        lambda x: f"{x}",
        lambda x: x[1:],
        lambda *x: x,
        lambda x, *, y=1: x + y,
        lambda x: lambda: x,
        generator,
        looping,
        guarded,
        abs,
    ],
)
def test_functions_beyond_expressions_are_called(function):
    assert EVALUATION.program(function, 1) is None
    assert EVALUATION.without_call(function, 1) is function


def test_a_variable_of_one_branch_only_is_left_to_the_function():
    def unset(x):
        if x:
            y = 1
        return y

    assert EVALUATION.program(unset, 1) is None


def test_a_method_that_does_not_use_its_object_is_an_expression():
    class Function:
        factor = 3

        def add(self, value, accumulator):
            return accumulator + value[1]

        def scale(self, value):
            return value * self.factor

    assert EVALUATION.without_call(Function().add, 2)((0, 2), 40) == 42
    assert EVALUATION.program(Function().scale, 1) is None


def test_surroundings_are_those_of_the_moment(monkeypatch):
    amount = 1

    def add(x):
        return x + amount

    def multiply(x):
        return FACTOR * x

    add, multiply = EVALUATION.without_call(add, 1), EVALUATION.without_call(multiply, 1)
    assert (add(1), multiply(1)) == (2, 7)
    amount = 10
    monkeypatch.setitem(globals(), "FACTOR", 100)
    assert (add(1), multiply(1)) == (11, 100)


def test_operators_of_other_types_are_used_once_and_by_the_function():
    calls = []

    class Noted:
        def __add__(self, other):
            calls.append(other)
            return other

    assert EVALUATION.without_call(lambda x: x[0] + 1, 1)((Noted(),)) == 1
    assert calls == [1]


def test_an_expression_that_never_fits_falls_back_to_calls():
    evaluated = EVALUATION.without_call(lambda x: x + x, 1)
    assert [evaluated([i]) for i in range(200)] == [[i, i] for i in range(200)]
    assert evaluated(21) == 42


def test_an_error_has_the_users_line():
    def halves(x):
        return 100 // x

    with pytest.raises(ZeroDivisionError) as caught:
        EVALUATION.without_call(halves, 1)(0)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "halves"
    assert caught.value.__context__ is None


def test_wrong_arguments_are_the_functions_affair():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        EVALUATION.without_call(lambda x, y: x + y, 2)(1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        EVALUATION.without_call(lambda x, y: x + y, 1)(1)
    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given"):
        EVALUATION.without_call(lambda: 5, 1)(1)
    assert EVALUATION.without_call(lambda x, y=2: x + y, 1)(1) == 3
    assert EVALUATION.without_call(lambda x, y=2: x + y, 1)(1, 3) == 4
    assert EVALUATION.without_call(lambda x, y=2: x + y, 2)(1) == 3


NUMBERS = st.one_of(st.integers(-5, 5), st.integers(), st.floats(allow_nan=False))
BINARY = st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "<", "==", ">=", "and", "or"])
SOURCES = st.recursive(
    st.one_of(st.sampled_from(["a", "b", "c[0]", "c[1]"]), st.integers(-9, 9).map("({})".format)),
    lambda inner: st.one_of(
        st.tuples(inner, BINARY, inner).map(lambda parts: "({} {} {})".format(*parts)),
        st.tuples(inner, inner, inner).map(lambda parts: "({} if {} else {})".format(*parts)),
        st.tuples(inner, inner).map(lambda parts: "({}, {})[1]".format(*parts)),
        inner.map("(-{})".format),
        inner.map("(not {})".format),
    ),
    max_leaves=10,
)


@given(SOURCES, st.lists(st.tuples(NUMBERS, NUMBERS, st.tuples(NUMBERS, NUMBERS)), min_size=1))
def test_any_expression_gives_what_the_function_gives(source, arguments):
    function = eval(f"lambda a, b, c: ({source}, a)")
    evaluated = EVALUATION.without_call(function, 3)
    for values in arguments:
        assert outcome_of(evaluated, *values) == outcome_of(function, *values), source


def chain_of(*stages):
    """Return the fused chain of stages, and its output."""
    seen = []
    sink = FunctionSink(None, seen.append)
    sink.setup(None, None)
    entry, fusion, operators = sink, Fusion(EVALUATION), []
    for kind, function in reversed(stages):
        operator = kind(None, function)
        operator.setup(None, ChainingOutput(entry))
        entry = fusion.entry(operator)
        operators.insert(0, operator)
    return entry, operators, seen


def run(entry, values, of_all):
    if of_all:
        entry.process_all(values, MIN_TIMESTAMP)
    else:
        for value in values:
            entry.process(value, MIN_TIMESTAMP)


@pytest.mark.parametrize("of_all", [False, True])
def test_stages_that_compute_are_one_program(of_all):
    entry, _, seen = chain_of(
        (MapOperator, lambda x: x + 1),
        (FilterOperator, lambda x: x % 2 == 0),
        (MapOperator, branching),
        (FilterOperator, lambda x: x),
    )
    assert type(entry) is FusedOperator
    with pytest.raises(TypeError):
        run(entry, [1], of_all)
    entry, _, seen = chain_of(
        (MapOperator, lambda x: (x, 5)),
        (MapOperator, branching),
        (FilterOperator, lambda x: x),
    )
    run(entry, [1, 5, 6, 2**70], of_all)
    assert seen == [(3, 5), (11, 5), 1, 2**70 - 5]


@pytest.mark.parametrize("of_all", [False, True])
def test_the_stage_that_fails_is_blamed(of_all):
    def halve_of(x):
        return 100 // x

    entry, operators, seen = chain_of(
        (MapOperator, lambda x: x + 1), (MapOperator, halve_of), (MapOperator, lambda x: x)
    )
    with pytest.raises(ZeroDivisionError) as caught:
        run(entry, [0, -1], of_all)
    assert seen == [100]
    assert [operator.failed_with for operator in operators] == [None, caught.value, None]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "halve_of"


@pytest.mark.parametrize("of_all", [False, True])
def test_stages_that_compute_and_others_follow_each_other(of_all):
    calls = []

    def noted(x):
        calls.append(x)
        return x

    entry, _, seen = chain_of(
        (MapOperator, lambda x: x + 1),
        (MapOperator, noted),
        (FilterOperator, lambda x: x > 1),
        (MapOperator, lambda x: [x]),
        (MapOperator, noted),
    )
    run(entry, [0, 1], of_all)
    assert calls == [1, 2, [2]]
    assert seen == [[2]]


def test_a_stage_after_one_that_never_fits_still_runs():
    entry, _, seen = chain_of((MapOperator, lambda x: x + x), (MapOperator, lambda x: (x, 1)))
    entry.process_all([[i] for i in range(100)], MIN_TIMESTAMP)
    assert seen == [([i, i], 1) for i in range(100)]


def test_a_run_that_is_too_long_for_one_program_is_cut():
    stages = [(MapOperator, lambda x: (x + 1) * 2 - x) for _ in range(60)]
    entry, operators, seen = chain_of(*stages)
    run(entry, [3], True)
    expected = 3
    for operator in operators:
        expected = operator.function(expected)
    assert seen == [expected]


@pytest.mark.parametrize("of_all", [False, True])
def test_defaults_are_those_of_the_moment(of_all):
    def scaled(x, factor=10, seen=[5]):  # noqa: B006
        return x * factor + seen[-1]

    entry, _, seen = chain_of(
        (MapOperator, scaled),
        (FilterOperator, lambda x, k=20: x > k),
        (MapOperator, [lambda x, i=i: (x, i) for i in range(3)][1]),
    )
    run(entry, [1, 2], of_all)
    scaled.__defaults__[1].append(7)
    run(entry, [2], of_all)
    scaled.__defaults__ = (100, [0])
    run(entry, [2], of_all)
    scaled.__code__ = (lambda x, factor=0, seen=(): x + 30).__code__
    run(entry, [2], of_all)
    assert seen == [(25, 1), (27, 1), (200, 1), (32, 1)]


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("kind", [MapOperator, FilterOperator])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 5, "takes 0 positional arguments but 1 was given"),
        (lambda x, y: y, "missing 1 required positional argument: 'y'"),
        (lambda x, *, y: x, "missing 1 required keyword-only argument: 'y'"),
    ],
)
def test_a_stage_of_other_arguments_fails_as_the_function_does(kind, function, message, of_all):
    entry, _, seen = chain_of((kind, function), (MapOperator, lambda x: x))
    with pytest.raises(TypeError, match=message):
        run(entry, [1], of_all)
    assert seen == []


def test_globals_that_are_no_plain_dict_are_left_to_the_function():
    class Scope(dict):
        def __getitem__(self, name):
            return 40

    scaled = eval("lambda x: x + unknown", Scope())
    assert EVALUATION.program(scaled, 1) is None


@pytest.mark.parametrize("how", ["gettrace", "getprofile"])
def test_whoever_watches_calls_sees_them(monkeypatch, how):
    def add(x):
        return x + 1

    with monkeypatch.context() as watched:
        # Not a real profiler: CPython 3.11 spins in one that starts while it has an exception to
        # raise in a thread that has ended.
        watched.setattr(sys, how, lambda: print)
        assert EVALUATION.program(add, 1) is None
    assert EVALUATION.program(add, 1) is not None
