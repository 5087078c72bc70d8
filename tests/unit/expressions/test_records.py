"""Functions that read the fields of records of a declared class are evaluated without a call.

Method: the evaluator stands for a function that fails when it is called, and counts.
"""

from dataclasses import dataclass
from operator import attrgetter

import pydantic
import pytest
from penstock.common import Types
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.expressions.evaluation import Called, Evaluation, Stage
from penstock.network import runtime

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")


@dataclass(frozen=True, slots=True)
class Place:
    town: str


@dataclass(frozen=True, slots=True)
class Click:
    user: str
    price: float
    place: Place | None = None


class Order(pydantic.BaseModel):
    user: str
    price: float


class DearClick(Click):
    pass


CLICK = Types.of(Click)
CLICKS = [Click("ada", 1.5, Place("Rome")), Click("bob", -2.0, Place("Paris"))]


def evaluated(function, type_info=CLICK):
    """Return the function's expression; a call of the function fails."""
    from penstock._native.evaluator.expression import Expression

    def called(*values):
        pytest.fail(f"the function was called with {values}")

    program = Evaluation().program(function, 1, (type_info,))
    assert program is not None
    return Expression(called, program)


def check(function, values, type_info=CLICK):
    expression = evaluated(function, type_info)
    compute = expression.callable()
    found = [compute(value) for value in values]
    assert (expression.evaluated, expression.given_up) == (len(values), 0)
    return found


@pytest.mark.parametrize(
    "function",
    [
        lambda click: click.price * 2,
        lambda click: (click.user, click.price > 0),
        lambda click: click.user if click.price > 0 else click.place.town,
        lambda click: click.place.town,
    ],
)
def test_attributes_are_read_by_functions(function):
    assert check(function, CLICKS) == [function(click) for click in CLICKS]


def test_attributes_are_read_by_expressions():
    expression = as_tuple(
        field("user").str.upper(), field("price") * 2, field("place").field("town")
    )
    function = computed(expression, "map", [CLICK])
    assert check(function, CLICKS) == [("ADA", 3.0, "Rome"), ("BOB", -4.0, "Paris")]


def test_attributes_of_models_are_read():
    orders = [Order(user="ada", price=1)]
    assert check(lambda order: order.price + 1, orders, Types.of(Order)) == [2.0]


def test_another_class_is_read_by_the_function():
    compute = Evaluation().expression(lambda click: click.user, 1, (CLICK,))
    assert compute.callable()(DearClick("eve", 1.0)) == "eve"
    assert (compute.evaluated, compute.given_up) == (0, 1)


def test_a_key_is_taken_without_a_call():
    select = computed(field("user"), "key_by", [CLICK])
    from penstock.serialization.key_selection import part_of

    assert part_of(select.function) == part_of(attrgetter("user"))


@pytest.mark.parametrize(
    "function",
    [lambda click: click.usr, lambda click: click.user.upper(), lambda click: click.copy()],
)
def test_other_attributes_are_not_fields(function):
    assert isinstance(Evaluation().decide([Stage(function, types=(CLICK,))]), Called)
