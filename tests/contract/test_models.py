"""Models of pydantic are encoded as the values of their fields, with all other attributes.

Goal: everything that pickling keeps is kept: set fields, private and extra attributes, the class;
and nothing is validated a second time. Method: values through both codecs, which write the same;
classes in two versions.
"""

import copy
import functools
import pickle
import subprocess
import sys
from typing import Any, Generic, TypeVar

import pydantic
import pydantic.dataclasses
import pytest
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.class_reference import register
from penstock.serialization.extended_values import is_pickled
from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.value_bytes import JobBytes
from penstock.serialization.value_layouts import number_classes
from penstock.taskexecutor.copies.copy_plans import INSTANCE, plan_of
from support.patience import PATIENCE_S

from contract.codecs import NATIVE_IS_BUILT, RUNTIMES, codec_of, versions_in

BUILT = ("native", "pure") if NATIVE_IS_BUILT else ("pure",)
T = TypeVar("T")


class Order(pydantic.BaseModel):
    name: str
    price: float = 1.0
    tags: list[str] = []


class Express(Order):
    """A subclass of a declared type."""

    price: float = 5.0
    hours: int


class Noted(pydantic.BaseModel):
    name: str
    _note: str = "none"
    _count: int = pydantic.PrivateAttr(default_factory=lambda: 3)
    _later: int


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str = "a"


class Frozen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    name: str
    number: int


class Basket(pydantic.BaseModel):
    owner: Frozen
    orders: list[Order | Express]
    parts: dict[str, Noted | Open] = {}


class Box(pydantic.BaseModel, Generic[T]):
    item: T


IntBox = Box[int]


class Names(pydantic.RootModel[list[str]]):
    pass


class Empty(pydantic.BaseModel):
    pass


class Aliased(pydantic.BaseModel):
    name: str = pydantic.Field(alias="the-name")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_assignment=True)
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def even(cls, number):
        if number % 2:
            raise ValueError("odd")
        return number

    def model_post_init(self, context: Any) -> None:
        raised.append(self.number)


class Area(pydantic.BaseModel):
    width: int

    @functools.cached_property
    def doubled(self):
        return 2 * self.width


class Told(pydantic.BaseModel):
    name: str

    def __getstate__(self):
        return super().__getstate__() | {"told": True}


@pydantic.dataclasses.dataclass
class Place:
    x: int
    names: list[str] = pydantic.Field(default_factory=list)


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    x: int


Many = pydantic.create_model(
    "Many", __module__=__name__, **{f"field{i}": (int, i) for i in range(70)}
)

#: The values that ``model_post_init`` of `Strict` has received.
raised: list[int] = []


def noted():
    value = Noted(name="a")
    value._note = "b"
    return value


VALUES = [
    Order(name="a"),
    Order(name="a", price=2.5, tags=["x", "y"]),
    Express(name="a", hours=3),
    noted(),
    Open(),
    Open(name="b", more=[1], other={"k": "v"}),
    Frozen(name="a", number=1),
    Basket(
        owner=Frozen(name="a", number=1),
        orders=[Order(name="b"), Express(name="c", hours=1)],
        parts={"n": noted(), "o": Open(x=1)},
    ),
    IntBox(item=3),
    Names(["a", "b"]),
    Empty(),
    Aliased(**{"the-name": "a"}),
    Many(field3=7, field69=8),
    Place(1, ["a"]),
    Spot(2),
]


def state(value):
    if isinstance(value, pydantic.BaseModel):
        return value.__getstate__()
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def through_all(value):
    """Return what each codec decodes from each encoding; all results are equal."""
    written = {codec_of(runtime, None).encode(value) for runtime in BUILT}
    assert len(written) == 1
    back = [codec_of(runtime, None).decode(*written) for runtime in BUILT for _ in range(3)]
    for found in back:
        assert type(found) is type(value)
        assert found == value
        assert state(found) == state(value)
        assert repr(found) == repr(value)
        if type(value).__hash__ is not None:
            assert hash(found) == hash(value)
        if isinstance(value, pydantic.BaseModel):
            assert list(vars(found)) == list(vars(value))
            assert found.model_dump(exclude_unset=True) == value.model_dump(exclude_unset=True)
    return back


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_models_travel_without_a_pickle(value):
    assert not is_pickled(value)
    for found in through_all(value):
        # A decoded model is written alike, even if its dict was never read.
        assert not is_pickled(found)
        through_all(found)


def test_a_model_has_its_fields_and_a_bit_set_of_those_set(codec):
    data = codec.encode(Order(name="a", tags=[]))
    signature = f"{__name__}:Order(name,price,tags,*model)".encode()
    assert data[2:].startswith(signature)
    assert data[2 + len(signature) :] == bytes.fromhex("4161 083ff0000000000000 90 c5")


def test_a_decoded_model_behaves_like_the_original(codec):
    order = codec.decode(codec.encode(Order(name="a")))
    order.price = 3.0
    assert order.model_fields_set == {"name", "price"}
    assert order.model_copy() == order
    assert order.model_dump_json() == '{"name":"a","price":3.0,"tags":[]}'
    assert Order.model_validate(order) is order
    value = codec.decode(codec.encode(Noted(name="a")))
    value._later = 1
    assert (value._note, value._count, value._later) == ("none", 3, 1)
    more = codec.decode(codec.encode(Open(x=1)))
    more.y = 2
    assert more.model_extra == {"x": 1, "y": 2}
    with pytest.raises(pydantic.ValidationError):
        codec.decode(codec.encode(Frozen(name="a", number=1))).number = 2


def test_nothing_is_validated_again(codec):
    raised.clear()
    value = Strict.model_construct(number=3)
    wrong = Order.model_construct(name=7, price="x", tags=None)
    before = list(raised)
    assert codec.decode(codec.encode(value)).number == 3
    assert codec.decode(codec.encode(wrong)).name == 7
    assert raised == before


def test_instances_that_are_not_as_their_class_says():
    """Fields missing, in another order or beside cached ones; other names that were set."""
    area = Area(width=2)
    assert area.doubled == 4
    partial = Order.model_construct(price=1.0)
    turned = Order.model_construct(name="a")
    turned.__dict__ = dict(reversed(turned.__dict__.items()))
    odd = Order.model_construct(_fields_set={"name", "other"}, name="a")
    deleted = Order(name="a")
    del deleted.price
    for value in (area, partial, turned, odd, deleted):
        assert not is_pickled(value)
        written = {codec_of(runtime, None).encode(value) for runtime in BUILT}
        for data in written:
            for runtime in BUILT:
                found = codec_of(runtime, None).decode(data)
                assert state(found) == state(value)
                assert list(vars(found)) == list(vars(value))


@pytest.mark.parametrize(
    "value",
    [
        Told(name="a"),
        Order.model_construct(name="a", price=[1], tags=range(3)),
        Open(x=range(3)),
    ],
    ids=["own way", "field", "extra"],
)
def test_other_ways_of_pickling_are_kept(codec, value):
    assert is_pickled(value)
    assert codec.decode(codec.encode(value)) == value


def test_a_shared_part_stays_shared(codec):
    names = ["x"]
    for value in (
        Open.model_construct(name=names, other=names),
        Basket.model_construct(owner=Order.model_construct(name=names), orders=names),
    ):
        assert is_pickled(value)
        found = codec.decode(codec.encode(value))
        held = found.owner.name if isinstance(found, Basket) else found.name
        assert held is (found.orders if isinstance(found, Basket) else found.other)
    loop = Open()
    loop.me = loop
    assert codec.decode(codec.encode(loop)).me.me.model_fields_set == {"me"}


def test_models_within_an_instance_that_are_not_as_they_say():
    """Both runtimes recognise them: the whole instance is pickled."""
    area = Area(width=2)
    assert area.doubled == 4
    unmade = Order.__new__(Order)
    odd = Order.model_construct(_fields_set={"other"}, name="a")
    for inner in (area, unmade, odd, Told(name="a"), Open(x=range(3))):
        value = Basket.model_construct(owner=inner, orders=[])
        if inner is unmade:
            for runtime in BUILT:
                with pytest.raises(SerializationError, match="no attribute '__pydantic_private__'"):
                    codec_of(runtime, None).encode(value)
            continue
        assert is_pickled(value)
        assert len({codec_of(runtime, None).encode(value) for runtime in BUILT}) == 1


def test_in_a_job_a_number_names_class_and_fields(codec):
    class Own(pydantic.BaseModel):
        name: str
        _note: int = 1

    class OwnBox(pydantic.BaseModel, Generic[T]):
        item: T

    for value in (Own(name="a"), OwnBox[int](item=1)):
        cls = type(value)
        number_classes([(register(cls), cls)])
        out = JobBytes()
        encode_dynamic(out, value)
        assert out[0] == 0x21
        for data in (bytes(out), codec.encode(value)):
            found = codec.decode(data)
            assert type(found) is cls
            assert found == value


@pytest.mark.parametrize("rest", [b"\xc8", b"\xa0", b"\x41a", b"\x83\xc0\xc0\x00", b"\x82\xc0\xc0"])
def test_bytes_that_are_no_rest_of_a_model_are_refused(codec, rest):
    data = codec.encode(Order(name="a", tags=[]))
    with pytest.raises(CorruptStreamError):
        codec.decode(data[:-1] + rest)
    root = codec.encode(Names(["a"]))
    with pytest.raises(CorruptStreamError):
        codec.decode(root[:-1] + b"\x83\xc1\x0e\x00\x0e\x00")


def test_keys_meet_those_that_were_pickled():
    """The form that determines a key's key group is that of a pickle taken apart."""
    for value in (Frozen(name="a", number=1), Open(x=1)):
        assert form_of(value)[0] == 0x1F
        assert form_of(value) == form_of(pickle.loads(pickle.dumps(value)))


@pytest.mark.parametrize("value", VALUES[:13], ids=lambda value: type(value).__name__)
def test_copies_are_made_of_attributes(value, copier):
    assert plan_of(value).kind == INSTANCE
    made = copier.copied(value)
    assert made == copy.deepcopy(value) == value
    assert state(made) == state(value)
    assert made is not value
    assert vars(made) is not vars(value)
    assert made.model_fields_set is not value.model_fields_set


@pytest.fixture(params=RUNTIMES)
def copier(request):
    if request.param == "native":
        from penstock._native.values.value_copies import ValueCopier
    else:
        from penstock.taskexecutor.compiled.value_copies import ValueCopier
    return ValueCopier("a test hands on")


@pytest.fixture
def version(monkeypatch):
    return versions_in("module_of_a_model", monkeypatch)


def test_a_changed_model_is_refused_with_both_layouts(codec, version):
    data = codec.encode(version(pydantic.create_model("Item", x=int, y=int))(x=1, y=2))
    version(pydantic.create_model("Item", x=int, z=(int, 3)))
    with pytest.raises(SerializationError) as caught:
        codec.decode(data)
    for part in ("module_of_a_model:Item", "(x, y, *model)", "(x, z, *model)"):
        assert part in str(caught.value)


class First(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int
    y: int = 0
    _a: int = 1
    _b: int = 2

    @functools.cached_property
    def doubled(self):
        return 2 * self.x


class Later(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int
    name: str = "none"
    more: list = pydantic.Field(default_factory=list)
    was_extra: int
    _b: int = 5
    _c: list = []

    @functools.cached_property
    def doubled(self):
        return 2 * self.x


@pytest.mark.parametrize("cached", [False, True])
def test_restored_state_has_its_fields_by_their_names(codec, version, cached):
    """Removed fields are dropped, added ones have their default, private ones as well."""
    first = version(type("Item", (First,), {"__annotations__": {}, "__module__": __name__}))
    value = first(x=1, y=2, was_extra=7, stays=8)
    value._b = 3
    if cached:
        assert value.doubled == 2
    data = codec.encode([value, value.model_copy()])
    later = version(type("Item", (Later,), {"__annotations__": {}, "__module__": __name__}))
    with former_fields_taken():
        found, other = codec.decode(data)
    assert type(found) is later
    assert (found.x, found.name, found.was_extra, found.stays) == (1, "none", 7, 8)
    assert found.model_fields_set == {"x", "was_extra", "stays"}
    assert found.__pydantic_private__ == {"_b": 3, "_c": []}
    assert ("doubled" in vars(found)) is cached
    assert "y" not in vars(found)
    assert found == other
    assert found.more is not other.more, "a default of its own"
    assert codec.decode(codec.encode(found)) == found, "as of the second version from then on"


@pytest.mark.parametrize("cached", [False, True])
def test_a_field_without_a_default_cannot_be_added(codec, version, cached):
    value = version(pydantic.create_model("Item", x=int))(x=1)
    if cached:
        value.__dict__["cached"] = 1
    data = codec.encode(value)
    version(pydantic.create_model("Item", x=int, z=int))
    with former_fields_taken(), pytest.raises(SerializationError) as caught:
        codec.decode(data)
    for part in ("module_of_a_model:Item", "(x", "'z' would need a default"):
        assert part in str(caught.value)


def test_a_field_that_was_deleted_is_missing_when_state_is_restored(codec):
    value = Order.model_construct(price=2.0)
    with former_fields_taken():
        assert state(codec.decode(codec.encode(value))) == state(value)


def test_a_class_becomes_a_model_and_back(codec, version):
    class Plain:
        def __init__(self, x):
            self.x = x

    class Model(pydantic.BaseModel):
        x: int
        y: int = 2

    data = codec.encode(version(Plain)(1))
    version(Model)
    with former_fields_taken():
        found = codec.decode(data)
    assert (found, found.model_fields_set) == (Model(x=1), {"x"})
    data = codec.encode(found)
    version(Plain)
    with former_fields_taken():
        assert vars(codec.decode(data)) == {"x": 1, "y": 2}


@pytest.mark.process
def test_without_models_pydantic_is_not_imported():
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import penstock.datastream\n"
        "from penstock.serialization.codec import codec_of\n"
        "from penstock.serialization.type_schema import ANY\n"
        "class A:\n    def __init__(self): self.x = 1\n"
        "codec = codec_of(ANY)\n"
        "print(vars(codec.decode(codec.encode(A())))['x'], 'pydantic.main' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.split() == ["1", "False"]
