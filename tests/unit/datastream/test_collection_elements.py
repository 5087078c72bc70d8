"""Elements of `from_collection` on their way into the job."""

import dataclasses
import datetime
import types
import warnings
from decimal import Decimal

import pytest
from penstock.common import Instant, Row, RowKind, Types
from penstock.datastream.collection_elements import encoded_elements
from penstock.errors import InvalidProgramError, SerializationError
from penstock.serialization.codec import codec_for


@pytest.mark.parametrize(
    ("type_info", "given", "kept"),
    [
        (Types.BYTE(), [128, 300, -129, 5], [-128, 44, 127, 5]),
        (Types.SHORT(), [40000, -32768], [-25536, -32768]),
        (Types.INT(), [2**31, 2**33 + 5, -1], [-(2**31), 5, -1]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [[2**31]], [[-(2**31)]]),
        (Types.TUPLE([Types.STRING(), Types.BYTE()]), [("a", 256)], [("a", 0)]),
    ],
)
def test_whole_numbers_are_cut_as_in_pyflink(type_info, given, kept):
    decode = codec_for(type_info).decode
    assert [decode(element) for element in encoded_elements(given, type_info)] == kept


@pytest.mark.parametrize(
    ("type_info", "element"),
    [
        (Types.LONG(), 2**63),
        (Types.INT(), 2**63),
        (Types.BYTE(), "1"),
        (Types.INT(), 1.5),
        (Types.INT(), True),
        (Types.DOUBLE(), 1),
        (Types.FLOAT(), 1),
        (Types.BOOLEAN(), 1),
        (Types.BIG_DEC(), 1.5),
        (Types.STRING(), b"x"),
        (Types.STRING(), (1,)),
        (Types.TUPLE([Types.DOUBLE()]), (1,)),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.ROW([Types.INT()]), (1, 2)),
        (Types.ROW([Types.INT()]), Row(a=1)),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(b=1)),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1}),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [1]),
    ],
)
def test_values_of_another_type_are_rejected(type_info, element):
    with pytest.raises(SerializationError, match="element 0"):
        encoded_elements([element], type_info)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (True, "true"),
        (-7, "-7"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1e300, "1.0E300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1.50"), "1.50"),
        ({"a": None}, "{a=null}"),
        ("a", "a"),
    ],
)
def test_texts_are_made_of_numbers_as_java_writes_them(given, text):
    decode = codec_for(Types.STRING()).decode
    assert [decode(element) for element in encoded_elements([given], Types.STRING())] == [text]


@pytest.mark.parametrize(
    ("type_info", "given", "kept"),
    [
        (Types.ROW([Types.INT(), Types.STRING()]), (1.5, 2), Row(f0=None, f1="2")),
        (Types.ROW([Types.DOUBLE()]), Row(1), Row(f0=None)),
        (Types.BASIC_ARRAY(Types.INT()), [1, "a"], [1, None]),
        (Types.OBJECT_ARRAY(Types.BOOLEAN()), [1, True], [None, True]),
    ],
)
def test_misfits_of_row_fields_become_none_with_a_warning(type_info, given, kept):
    decode = codec_for(type_info).decode
    with pytest.warns(UserWarning, match="element 0: .* becomes None"):
        assert [decode(element) for element in encoded_elements([given], type_info)] == [kept]


@pytest.mark.parametrize(
    ("type_info", "given", "kept"),
    [
        (
            Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]),
            Row.of_kind(RowKind.DELETE, b=1, a=2),
            Row.of_kind(RowKind.DELETE, a=2, b=1),
        ),
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), {"b": 1}, Row(a=None, b=1)),
        (Types.TUPLE([Types.INT()]), [1], (1,)),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 2, 3), datetime.date(2020, 1, 2)),
        (Types.SQL_TIME(), datetime.datetime(2020, 1, 2, 3, 4), datetime.time(3, 4)),
        (Types.LIST(Types.SHORT()), [70000, None], [4464, None]),
    ],
)
def test_containers_and_moments_become_those_of_the_type(type_info, given, kept):
    decode = codec_for(type_info).decode
    (found,) = (decode(element) for element in encoded_elements([given], type_info))
    assert found == kept


class Town:
    def __init__(self, name, people):
        self.name, self.people = name, people


@dataclasses.dataclass
class Road:
    start: Town
    km: int


TOWN = Types.ROW_NAMED(["people", "name"], [Types.INT(), Types.STRING()])
ROAD = Types.ROW_NAMED(["start", "km", "lanes"], [TOWN, Types.INT(), Types.INT()])
RIGA = Row(people=6, name="Riga")


@pytest.mark.parametrize(
    ("type_info", "given", "kept"),
    [
        (TOWN, Town("Riga", 6), RIGA),
        (TOWN, types.SimpleNamespace(name="Riga", people=6, river="Daugava"), RIGA),
        (ROAD, Road(Town("Riga", 6), 3), Row(start=RIGA, km=3, lanes=None)),
        (Types.TUPLE([Types.INT(), TOWN]), (1, Town("Riga", 6)), (1, RIGA)),
        (
            Types.MAP(Types.STRING(), Types.STRING()),
            Town("Riga", 6),
            {"name": "Riga", "people": "6", "__class__": f"{__name__}.Town"},
        ),
        (Types.ROW([Types.MAP(Types.STRING(), Types.INT())]), (Town(1, 6),), None),
    ],
)
def test_objects_with_attributes_are_rows_and_maps_as_in_pyflink(type_info, given, kept):
    """In PyFlink the map of an object also contains its class, which only fits a map of texts."""
    decode = codec_for(type_info).decode
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = (decode(element) for element in encoded_elements([given], type_info))
    assert found == (kept or Row(f0={"name": 1, "people": 6}))


@pytest.mark.parametrize("given", [Road(None, 1), Town, len, dataclasses])
def test_objects_without_a_row_attribute_are_rejected(given):
    """PyFlink turns such an object into a row of None."""
    with pytest.raises(SerializationError, match="element 0"):
        encoded_elements([given], TOWN)


@pytest.mark.parametrize(
    "type_info", [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT()]
)
@pytest.mark.parametrize("given", [1, "a", 1.5])
def test_other_objects_lack_the_attributes_of_moments(type_info, given):
    with pytest.raises(AttributeError, match=type(given).__name__):
        encoded_elements([given], type_info)
    assert len(encoded_elements([Instant(1, 2)], Types.INSTANT())) == 1


@pytest.mark.parametrize("given", ["ab", {"a": 1, "b": 2}, ("a", "b"), (c for c in "ab"), b"ab"])
def test_anything_that_can_be_iterated_is_a_collection(given):
    decode = codec_for(None).decode
    elements = [decode(element) for element in encoded_elements(given, None)]
    assert elements in (["a", "b"], [97, 98])


def test_collections_must_be_iterable():
    with pytest.raises(InvalidProgramError, match="list of elements"):
        encoded_elements(5, None)
