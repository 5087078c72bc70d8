"""Values of every kind through every part of a job: they stay equal and keep their class.

Goal: keys, state, windows, side outputs, unions and broadcast state accept any value. Method: one
job with all of them, whose elements are numbered; on real workers, in both runtimes.
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import uuid
import zoneinfo
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
import numpy as np
import pydantic
import pydantic.dataclasses
import pytest
from penstock.common import Configuration, Row, Time, Types, WatermarkStrategy
from penstock.common.types import RowKind
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import TumblingEventTimeWindows

T = TypeVar("T")
ANY = Types.PICKLED_BYTE_ARRAY()
SIDE = OutputTag("side")
CONTENT = MapStateDescriptor("content", Types.INT(), ANY)


class Side(enum.Enum):
    BUY = "buy"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    name: str
    side: Any


@dataclasses.dataclass
class Order:
    name: str
    lines: list


@dataclasses.dataclass(frozen=True, slots=True)
class Tight:
    name: str
    at: datetime.datetime


class Plain:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return type(other) is Plain and self.number == other.number

    def __hash__(self):
        return hash(self.number)


class Text(str):
    """A subclass of a builtin type."""


class Slim(str):
    __slots__ = ()


class Celsius(float):
    pass


class Count(int):
    pass


class Span(tuple):
    pass


class Lines(list):
    pass


class Settings(dict):
    pass


class Basket:
    """Holds instances, alone and in a list."""

    def __init__(self, owner, lines):
        self.owner, self.lines = owner, lines

    def __eq__(self, other):
        return type(other) is Basket and vars(self) == vars(other)

    def __hash__(self):
        return hash(self.owner)


class Coin:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return type(other) is Coin and self.name == other.name

    def __hash__(self):
        return hash(self.name)


@attrs.frozen
class Bought:
    name: str
    amount: float


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Parent:
    name: str


@dataclasses.dataclass(frozen=True)
class Child(Parent):
    number: int
    note: str | None


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    name: str
    price: float = 1.0
    _note: str = "none"


class Bundle(pydantic.BaseModel):
    items: list[Item]


class Names(pydantic.RootModel[tuple[str, ...]]):
    model_config = pydantic.ConfigDict(frozen=True)


class Boxed(pydantic.BaseModel, Generic[T]):
    model_config = pydantic.ConfigDict(frozen=True)
    item: T


@pydantic.dataclasses.dataclass(frozen=True)
class Spot:
    x: int


Made = collections.namedtuple("Made", "number name")  # noqa: PYI024 (a class without hints)

MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

VALUES = [
    None, True, 7, 2**80, 1.5, "text", "é" * 70, b"bytes", (1, ("a", None)), frozenset({1}),
    MOMENT, MOMENT.replace(tzinfo=BERLIN, fold=1), MOMENT.date(), MOMENT.time(),
    datetime.timedelta(days=-1, microseconds=1), decimal.Decimal("1.50"), uuid.UUID(int=7),
    Side.BUY, Access.READ | Access.WRITE, np.int32(-3), np.float64(2.5), np.str_("np"), 1 + 2j,
    Pair("a", Side.BUY), Tight("b", MOMENT), Row(1, "a"), Row.of_kind(RowKind.DELETE, a=1, b="x"),
    Plain(5), Plain(Plain(5)), Text("t"), range(3), Coin("c"), Bought("a", 1.5), Made(1, "a"),
    Level.LOW, Child("a", 1, None), Slim("s"), Celsius(0.5), Count(70), Span((1, Slim("s"))),
    Basket(Coin("a"), [Coin("b"), Bought("c", Celsius(1.5)), Plain(Plain(1))]),
    Item(name="i"), Item(name="i", price=2, note="n"), Names(("a", "b")), Boxed[int](item=1),
    Boxed[Item](item=Item(name="i", x=1)), Spot(1),
    # The following values have no hash.
    bytearray(b"x"), [1, [2]], {"k": "v", "n": [1], 3: None}, {1, 2}, Order("o", [Pair("p", 1)]),
    Row(a=[1], b=Row(2)), collections.Counter("aab"), collections.deque([1, 2], 3),
    collections.OrderedDict(b=1, a=[2]), collections.defaultdict(list, a=[1]),
    Order("o", [collections.Counter("a"), collections.deque([Pair("p", 1)])]),
    Bundle(items=[Item(name="a"), Item(name="b", y=2)]),
    Lines([1, Lines([Coin("a")])]), Settings(a=Settings(b=1)),
    np.arange(6, dtype="f4").reshape(2, 3),
]  # fmt: skip


class Numbers(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Keeps(KeyedProcessFunction):
    def __init__(self, label):
        self.label = label

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", ANY))
        self.values = runtime_context.get_list_state(ListStateDescriptor("list", ANY))
        self.pairs = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), ANY))

    def process_element(self, value, ctx):
        number, content = value
        if content is not None:
            self.value.update(content)
            self.values.add(content)
            self.pairs.put("content", content)
            yield "state", number, self.value.value()
            yield "list", number, next(iter(self.values))
            yield "map", number, self.pairs.get("content")
        yield self.label, number, ctx.get_current_key()


class Sided(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield SIDE, ("side", *value)


class Windowed(ProcessWindowFunction):
    def process(self, key, context, elements):
        for number, value in elements:
            yield "window", number, value


class Told(BroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(CONTENT)
        state.put(*value)
        yield "broadcast", value[0], state.get(value[0])

    def process_element(self, value, ctx):
        return []


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Row) and one.get_row_kind() != other.get_row_kind():
        return False
    if isinstance(one, collections.deque) and one.maxlen != other.maxlen:
        return False
    return one == other and getattr(one, "tzinfo", None) == getattr(other, "tzinfo", None)


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_every_kind_of_value_goes_everywhere(runtime, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "taskmanager.numberOfTaskSlots": "1"})
    )
    env.set_parallelism(2)
    numbered = list(enumerate(VALUES))
    hashable = numbered[: VALUES.index("text")] + [
        pair for pair in numbered if type(pair[1]).__hash__ is not None and pair[0] > 5
        and not (isinstance(pair[1], Row) and pair[0] > 30)
    ]  # fmt: skip
    source = env.from_collection(numbered).rebalance().map(lambda v: v)
    sided = source.process(Sided())
    by_number = sided.key_by(lambda v: v[0], Types.INT())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbers())
    windowed = (
        sided.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda v: v[0] % 3, Types.INT())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(Windowed())
    )
    by_value = env.from_collection(hashable).rebalance().key_by(lambda v: v[1])
    rules = env.from_collection(numbered).broadcast(CONTENT)
    told = env.from_collection([1, 2]).rebalance().connect(rules).process(Told())
    everything = by_number.process(Keeps("number")).union(
        sided.get_side_output(SIDE).rebalance(),
        windowed.rebalance(),
        told,
        by_value.process(Keeps("key")),
    )
    with everything.rebalance().map(lambda v: v).execute_and_collect() as results:
        found = collections.defaultdict(list)
        for label, number, value in results:
            found[label].append((number, value))
    copies = {"side": 1, "window": 1, "broadcast": 2, "state": 1, "list": 1, "map": 1}
    for label, count in copies.items():
        for number, value in numbered:
            back = [other for which, other in found[label] if which == number]
            if value is None and label in ("state", "list", "map"):
                continue
            assert len(back) >= count, (label, value)
            assert all(same(value, other) for other in back), (label, value, back)
    for number, value in hashable:
        (back,) = (other for which, other in found["key"] if which == number)
        assert same(value, back), (value, back)
        assert hash(back) == hash(value)
    assert sorted(found["number"]) == [(number, number) for number, _ in numbered]
