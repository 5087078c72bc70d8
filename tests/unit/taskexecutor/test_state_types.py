"""State that is restored with another declared type: converted, or rejected with both types.

Method: an operator writes a state, and another one opens it, as a later version of a program would.
"""

import pytest
from penstock.common import Row, RowKind, Time, Types
from penstock.datastream import MapFunction
from penstock.datastream.functions import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    PipelineTestHarness,
)

OLD = Types.ROW_NAMED(["name", "count", "gone"], [Types.STRING(), Types.LONG(), Types.INT()])
NEW = Types.ROW_NAMED(["count", "added", "name"], [Types.LONG(), Types.INT(), Types.STRING()])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()


class Keeping(KeyedProcessFunction):
    """Writes an element's value to a state, if it has one, and emits the state's content."""

    def __init__(self, kind, type_info, ttl=False):
        self.kind = kind
        self.type_info = type_info
        self.ttl = ttl

    def open(self, runtime_context):
        descriptor = {
            "value": lambda: ValueStateDescriptor("it", self.type_info),
            "list": lambda: ListStateDescriptor("it", self.type_info),
            "map": lambda: MapStateDescriptor("it", Types.STRING(), self.type_info),
        }[self.kind]()
        if self.ttl:
            descriptor.enable_time_to_live(TTL)
        opener = {
            "value": runtime_context.get_state,
            "list": runtime_context.get_list_state,
            "map": runtime_context.get_map_state,
        }
        self.state = opener[self.kind](descriptor)

    def process_element(self, value, ctx):
        written = value[1]
        if written is not None:
            if self.kind == "map":
                self.state.put("k", written)
            elif self.kind == "list":
                self.state.update([written, written])
            else:
                self.state.update(written)
        if self.kind == "map":
            yield dict(self.state.items())
        elif self.kind == "list":
            yield list(self.state.get())
        else:
            yield self.state.value()


def keeping(*arguments, key_type=None):
    return KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Keeping(*arguments)),
        lambda value: value[0],
        key_type=key_type or Types.STRING(),
    )


def after(old, value, new):
    """Return the value that the second operator reads from the state of the first one."""
    with old:
        old.process_element(("key", value), 0)
        snapshot = old.snapshot(1)
    new.initialize_state(snapshot)
    with new:
        new.process_element(("key", None), 1)
        return new.values[-1], new.snapshot(2)


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize(("kind", "wrapped"), [
    ("value", lambda row: row), ("list", lambda row: [row, row]), ("map", lambda row: {"k": row}),
])  # fmt: skip
def test_fields_of_rows_are_found_by_their_names(kind, wrapped, ttl):
    """An added field is None, a removed one is dropped, in any order."""
    row = Row(name="a", count=3, gone=7)
    row.set_row_kind(RowKind.UPDATE_AFTER)
    found, again = after(keeping(kind, OLD, ttl), row, keeping(kind, NEW, ttl))
    expected = Row(count=3, added=None, name="a")
    expected.set_row_kind(RowKind.UPDATE_AFTER)
    assert found == wrapped(expected)
    third = keeping(kind, NEW, ttl)
    third.initialize_state(again)
    with third:
        third.process_element(("key", None), 2)
        assert third.values == [wrapped(expected)], "it has the new type from then on"


def test_rows_without_names_keep_their_positions():
    positional = Row("a", 3, 7)
    found, _ = after(keeping("value", OLD), positional, keeping("value", NEW))
    assert list(found) == [3, None, "a"]
    two, three = Types.ROW([Types.INT(), Types.INT()]), Types.ROW([Types.INT()] * 3)
    found, _ = after(keeping("value", two), Row(1, 2), keeping("value", three))
    assert list(found) == [1, 2, None]


def test_rows_within_other_values():
    inside = [Types.LIST, Types.OBJECT_ARRAY, lambda t: Types.MAP(Types.STRING(), t)]
    values = [[Row(name="a", count=1, gone=2), None]] * 2 + [{"k": Row(name="a", count=1, gone=2)}]
    for wrap, value in zip(inside, values, strict=True):
        found, _ = after(keeping("value", wrap(OLD)), value, keeping("value", wrap(NEW)))
        first = found["k"] if isinstance(found, dict) else found[0]
        assert first == Row(count=1, added=None, name="a")
    old, new = (Types.TUPLE([Types.INT(), row]) for row in (OLD, NEW))
    value = (5, Row(name="a", count=1, gone=2))
    found, _ = after(keeping("value", old), value, keeping("value", new))
    assert found == (5, Row(count=1, added=None, name="a"))
    nested = [Types.ROW_NAMED(["inner"], [row]) for row in (OLD, NEW)]
    value = Row(inner=Row(name="a", count=1, gone=2))
    found, _ = after(keeping("value", nested[0]), value, keeping("value", nested[1]))
    assert found == Row(inner=Row(count=1, added=None, name="a"))


@pytest.mark.parametrize(
    ("old", "value", "new", "says"),
    [
        (Types.LONG(), 1, Types.STRING(), ("LONG", "STRING")),
        (Types.INT(), 1, Types.LONG(), ("INT", "LONG")),
        (Types.SQL_DATE(), None, Types.SQL_TIME(), ("SQL_DATE", "SQL_TIME")),
        (OLD, None, Types.ROW_NAMED(["count"], [Types.STRING()]), ("count: LONG", "count: STRING")),
        (Types.LIST(Types.INT()), [1], Types.LIST(Types.STRING()), ("LIST(INT)", "LIST(STRING)")),
        (
            Types.TUPLE([Types.INT()]), (1,), Types.TUPLE([Types.INT(), Types.INT()]),
            ("TUPLE(INT)", "TUPLE(INT, INT)"),
        ),
        (
            Types.MAP(Types.INT(), Types.INT()), {1: 1}, Types.MAP(Types.LONG(), Types.INT()),
            ("MAP(INT, INT)", "MAP(LONG, INT)"),
        ),
        (None, 1, Types.LONG(), ("PICKLED_BYTE_ARRAY", "LONG")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_other_types_are_refused(kind, old, value, new, says):
    with pytest.raises(InvalidProgramError) as caught:
        after(keeping(kind, old), value, keeping(kind, new))
    for text in ("state 'it' was written as", "is declared as", *says):
        assert text in str(caught.value)


def test_undeclared_states_accept_all_values():
    assert after(keeping("value", Types.LONG()), 3, keeping("value", None))[0] == 3


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("kind", "wrapped"), [
    ("value", lambda row: row), ("list", lambda row: [row, row]), ("map", lambda row: {"k": row}),
])  # fmt: skip
def test_fields_change_together_with_a_time_to_live(kind, wrapped, before):
    row = Row(name="a", count=3, gone=7)
    found, _ = after(keeping(kind, OLD, before), row, keeping(kind, NEW, not before))
    assert found == wrapped(Row(count=3, added=None, name="a"))


def test_the_type_of_keys_stays():
    old = keeping("value", OLD)
    with pytest.raises(InvalidProgramError, match="were of type STRING, and are of type LONG now"):
        after(old, Row("a", 1, 2), keeping("value", OLD, key_type=Types.LONG()))


def test_a_state_that_is_not_opened_keeps_its_type():
    """Even through a version of the program without the state."""
    with keeping("value", OLD) as first:
        first.process_element(("key", Row("a", 1, 2)), 0)
        snapshot = first.snapshot(1)

    class Without(Keeping):
        def open(self, runtime_context):
            pass

        def process_element(self, value, ctx):
            return []

    second = KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Without("value", OLD)),
        lambda value: value[0],
        key_type=Types.STRING(),
    )
    second.initialize_state(snapshot)
    with second:
        snapshot = second.snapshot(2)
    third = keeping("value", Types.INT())
    third.initialize_state(snapshot)
    with pytest.raises(InvalidProgramError, match="name: STRING, count: LONG, gone: INT"):
        third.open()


class Lists(MapFunction, CheckpointedFunction):
    """Stores rows without a key."""

    def __init__(self, type_info):
        self.type_info = type_info

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", self.type_info))
        self.union = store.get_union_list_state(ListStateDescriptor("union", self.type_info))
        rules = MapStateDescriptor("rules", Types.STRING(), self.type_info)
        self.rules = store.get_broadcast_state(rules)

    def map(self, value):
        if value is not None:
            self.split.add(value)
            self.union.add(value)
            self.rules.put("k", value)
        return [*self.split.get(), *self.union.get(), *self.rules.values()]

    def snapshot_state(self, context):
        pass


def test_state_without_a_key():
    old = OneInputStreamOperatorTestHarness(operators.Map(Lists(OLD)))
    with old:
        old.process_element(Row(name="a", count=1, gone=2))
        snapshot = old.snapshot(1)
    new = OneInputStreamOperatorTestHarness(operators.Map(Lists(NEW)))
    new.initialize_state(snapshot)
    with new:
        new.process_element(None)
        assert new.values == [[Row(count=1, added=None, name="a")] * 3]
    wrong = OneInputStreamOperatorTestHarness(operators.Map(Lists(Types.INT())))
    with pytest.raises(InvalidProgramError, match=r"state .split. was written as .*LIST"):
        wrong.initialize_state(snapshot)


@pytest.mark.parametrize("now", ["same", "added", "other"])
@pytest.mark.parametrize("operator", ["reduce", "tumbling", "sliding", "all"])
def test_states_of_the_operators_own(operator, now):
    """Some of these states are opened before the restore."""
    types = {
        "same": OLD,
        "added": Types.ROW_NAMED([*OLD.get_field_names(), "n"], [*OLD.get_field_types(), OLD]),
        "other": Types.LONG(),
    }

    class Listed(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield next(iter(elements))

    def program(type_info):
        harness = PipelineTestHarness()
        keyed = harness.source("rows", type_info).key_by(lambda row: 0, Types.LONG())
        first = {
            "reduce": lambda: keyed.reduce(lambda one, other: one),
            "tumbling": lambda: keyed.window(TEN).reduce(lambda one, other: one),
            "sliding": lambda: keyed.window(
                SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(10))
            ).reduce(lambda one, other: one),
            "all": lambda: keyed.window(TEN).process(Listed(), type_info),
        }[operator]()
        harness.sink("first", first)
        return harness

    with program(OLD) as old:
        old.process_element("rows", Row(name="a", count=1, gone=2), 1)
        snapshot = old.snapshot(1)
    new = program(types[now])
    if now == "other":
        with pytest.raises(InvalidProgramError, match=r"as .*count: LONG.* declared as .*LONG"):
            new.open(snapshot)
        return
    new.open(snapshot)
    more = {"n": None} if now == "added" else {}
    new.process_element("rows", Row(name="a", count=7, gone=7, **more), 1)
    new.process_watermark("rows", 10)
    assert new.values("first") == [Row(name="a", count=1, gone=2, **more)]
    new.close()
