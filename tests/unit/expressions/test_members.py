"""Members of enums in expressions, and fields of fields.

Method: expressions are checked for a class with such fields, and computed for its instances.
"""

from dataclasses import dataclass
from enum import Enum, Flag, IntEnum

import pytest
from penstock.common import Types
from penstock.errors import InvalidProgramError
from penstock.expressions import field
from penstock.expressions.checking import check
from penstock.expressions.computed import computed


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Place:
    town: str


@dataclass
class Click:
    colour: Colour
    level: Level
    place: Place
    name: str
    access: Access


CLICK = Types.of(Click)
RED, BLUE = (
    Click(Colour.RED, Level.LOW, Place("Rome"), "red", Access.READ),
    Click(Colour.BLUE, Level.HIGH, Place("Oslo"), "blue", Access.READ | Access.WRITE),
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (field("colour") == Colour.RED, [True, False]),
        (field("colour") != Colour.RED, [False, True]),
        (field("colour").is_in([Colour.BLUE, None]), [False, True]),
        (field("colour") == None, [False, False]),  # noqa: E711
        (field("level") == 1, [True, False]),
        (field("level") == Level.HIGH, [False, True]),
        (field("level") > 1, [False, True]),
        (field("access") == Access.READ | Access.WRITE, [False, True]),
        (field("place").field("town") == "Rome", [True, False]),
    ],
)
def test_fields_are_compared(expression, expected):
    compute = computed(expression, "map", [CLICK])
    assert [compute(click) for click in (RED, BLUE)] == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (field("colour") == "red", "with 'red', which it never is: write Colour.RED"),
        (field("colour") == "BLUE", "with 'BLUE', which it never is: write Colour.BLUE"),
        (field("colour") != 3, "with 3, which it never is: write Colour.RED"),
        (field("colour").is_in(["blue"]), "with 'blue', which it never is: write Colour.BLUE"),
        (field("name") == Colour.RED, "which it never is: write 'red'"),
        (field("place.town") == "Rome", r"a field of a field is field('place').field('town')"),
        (field("place.twon") == "Rome", r"a field of a field is field('place').field('twon')"),
    ],
)
def test_comparisons_that_cannot_hold_name_what_to_write(expression, message):
    with pytest.raises(InvalidProgramError) as caught:
        check(expression.node, [CLICK])
    assert message in str(caught.value)


def test_fields_of_objects_without_a_type_are_attributes():
    assert field("place").field("town")(RED) == "Rome"
    assert [field("town")(value) for value in ({"town": "Oslo"}, Place("Rome"))] == ["Oslo", "Rome"]
    with pytest.raises(TypeError, match=r"field\('twon'\): Place\(.*has no such field"):
        field("twon")(RED.place)
    with pytest.raises(AttributeError, match=r"write \.field\('town'\)"):
        _ = field("place").town
