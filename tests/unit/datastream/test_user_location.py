"""Errors name the line of the user's program, and notebooks show a picture of it."""

import pickle
import sys

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(Configuration())


def line_here():
    return sys._getframe(1).f_lineno


def test_an_error_names_the_line_of_the_call(env):
    stream = env.from_collection([1], Types.INT())
    with pytest.raises(InvalidProgramError) as raised:
        line = line_here() + 1
        stream.map(7)
    assert str(raised.value).endswith(f"\n  at {__file__}:{line}: stream.map(7)")
    assert raised.value.args[0] in str(raised.value)


def test_an_error_of_the_graph_names_the_line_that_made_the_operator(env):
    stream = env.from_collection([1], Types.INT())
    line = line_here() + 1
    loop = stream.iterate()
    loop.print()
    with pytest.raises(InvalidProgramError, match="no feedback edge") as raised:
        env.get_execution_plan()
    assert f"{__file__}:{line}" in str(raised.value)


def test_the_line_survives_pickling(env):
    with pytest.raises(InvalidProgramError) as raised:
        env.from_source(None, None, "nothing")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_notebook_shows_a_picture(env):
    assert env._repr_svg_() is None
    env.from_collection([1], Types.INT()).map(lambda v: v, Types.INT()).name("double").print()
    picture = env._repr_svg_()
    assert picture.startswith("<svg")
    assert "double" in picture
    plan = env.explain()
    assert plan._repr_svg_() == picture
    assert plan.startswith("Job ")
    # Looking at a program does not use it up.
    assert env._repr_svg_() == picture
