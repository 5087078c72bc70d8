"""Errors name the line of the user's program, and notebooks show a picture of the program."""

import pickle
import sys

import pytest
from penstock.common import Configuration, Time, Types
from penstock.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import EventTimeSessionWindows, EventTimeTrigger
from penstock.errors import InvalidProgramError, SerializationError


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
    # Displaying a program does not consume it.
    assert env._repr_svg_() == picture


def test_an_element_that_does_not_fit_is_named(env):
    with pytest.raises(SerializationError) as raised:
        line = line_here() + 1
        env.from_collection([1, "two"], Types.INT())
    message = str(raised.value)
    assert message.startswith("from_collection: element 1: 'two' (str) is not of type INT")
    assert f"\n  at {__file__}:{line}: " in message


class KeyedFunction(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class PlainFunction(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        pass


class Unmergeable(EventTimeTrigger):
    def can_merge(self):
        return False


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(1))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda s: s.process(KeyedFunction()),
            "process takes a ProcessFunction, got KeyedFunction, a KeyedProcessFunction; "
            "call key_by() before it",
        ),
        (
            lambda s: s.key_by(lambda v: v[0]).process(PlainFunction()),
            "KeyedStream.process takes a KeyedProcessFunction, got PlainFunction, a "
            "ProcessFunction; make it a KeyedProcessFunction",
        ),
        (
            lambda s: s.connect(s.broadcast()).process(Rules()),
            "ConnectedStreams.process takes a CoProcessFunction, got Rules, a "
            "BroadcastProcessFunction; connect with stream.broadcast(state_descriptor)",
        ),
        (
            lambda s: s.map(PlainFunction()),
            "map takes a MapFunction or a callable, got PlainFunction, a ProcessFunction",
        ),
        (
            lambda s: s.window_all(SESSIONS).process(len),
            "process takes a ProcessAllWindowFunction, got <built-in function len>; pass an "
            "object of a subclass, with def process(self, context, elements)",
        ),
        (
            lambda s: s.key_by(lambda v: v[0]).sum("count"),
            "sum: the fields of TupleTypeInfo(String, Integer) have no names, so there is no "
            "'count': give the position, from 0, or declare a Types.ROW_NAMED",
        ),
        (
            lambda s: s.window_all(SESSIONS).trigger(Unmergeable()),
            "EventTimeSessionWindows merges windows, which Unmergeable does not support: its "
            "can_merge() must return True, and its on_merge() merge the trigger's state",
        ),
    ],
)
def test_mistakes_say_how_to_mend_them(env, mistake, message):
    stream = env.from_collection([("a", 1)], PAIR)
    with pytest.raises(InvalidProgramError) as raised:
        mistake(stream)
    assert raised.value.args == (message,)
    assert raised.value.location is not None
    assert __file__ in raised.value.location


class Yielding(MapFunction):
    def map(self, value):
        yield value


def test_a_function_of_map_that_yields_causes_a_warning_at_its_line(env):
    stream = env.from_collection([("a", 1)], PAIR)
    with pytest.warns(UserWarning, match=r"map: Yielding.map yields, .*call flat_map") as warned:
        stream.map(Yielding())
    assert warned[0].filename == __file__


def test_keyed_sessions_take_a_trigger_that_cannot_merge(env):
    """They fail at the first merge of windows, as PyFlink's do."""
    windows = env.from_collection([("a", 1)], PAIR).key_by(lambda v: v[0]).window(SESSIONS)
    assert windows.trigger(Unmergeable()) is windows


def notes_of(stream):
    """Return the notes on the exception that ends a job."""
    with pytest.raises((ArithmeticError, IndexError)) as raised:
        stream.get_execution_environment().execute()
    return raised.value.__notes__


@pytest.fixture
def running_env():
    configuration = Configuration.from_dict({"execution.target": "in-process"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def test_a_failure_at_run_time_names_the_line_that_made_the_operator(running_env):
    stream = running_env.from_collection([("a", 0)], PAIR)
    line = line_here() + 1
    inverted = stream.map(lambda v: 1 / v[1])
    inverted.print()
    (note,) = notes_of(inverted)
    assert note.startswith("in operator 'Map', task ")
    assert f", made at {__file__}:{line}: inverted = stream.map(" in note


def test_a_failure_of_a_key_selector_is_distinguished_from_one_of_the_operator(running_env):
    stream = running_env.from_collection([("a", 0)], PAIR)
    keyed = stream.key_by(lambda v: v[2]).reduce(lambda a, b: a)
    keyed.print()
    notes = notes_of(keyed)
    assert notes[0] == "raised by the key selector of the records that the operator emits"
    assert notes[1].startswith("in operator 'Source: Collection Source', task ")
