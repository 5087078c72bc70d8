"""Conditions on entries of state, whose keys and values are tuples, records or plain values."""

from dataclasses import dataclass
from enum import Enum

import pytest
from penstock.common import Row
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.state.plain_values import plain
from penstock.taskexecutor.state.state_filters import (
    FilterFields,
    condition_of,
    condition_of_text,
    fits,
)
from pydantic import BaseModel


@dataclass(frozen=True)
class Order:
    item: str
    price: int


ROW = tuple(plain(part) for part in (("ada", 2), None, Order("tea", 5)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("key", "==", ("ada", 2)), True),
        (("key", "==", Row("ada", 2)), True),
        (("key", "!=", ("ada", 2)), False),
        (("key", "in", [("bob", 1), ("ada", 2)]), True),
        (("key", "in", {("bob", 1)}), False),
        (("key.f1", "<", 3), True),
        (("value", "==", Order("tea", 5)), True),
        (("value", "==", Order("tea", 6)), False),
        (("value.price", ">", 5), False),
    ],
)
def test_conditions_compare_tuples_and_records(condition, expected):
    assert fits(ROW, [condition_of(*condition)]) is expected


def test_a_text_names_a_tuple():
    assert fits(ROW, [condition_of_text("key == ('ada', 2)")])
    assert fits(ROW, [condition_of_text("key in [('ada', 2)]")])


class Colour(Enum):
    RED = "red"


class Car(BaseModel):
    colour: Colour
    doors: int


def test_models_and_members_of_enums_are_plain():
    assert plain(Car(colour=Colour.RED, doors=3)) == {"colour": "red", "doors": 3}
    row = ("k", None, plain(Car(colour=Colour.RED, doors=3)))
    assert fits(row, [condition_of("value.colour", "==", Colour.RED)])
    assert fits(row, [condition_of("value.colour", "in", ["red"])])


@pytest.mark.parametrize(
    ("rows", "field", "problem"),
    [
        ([ROW], "value.prise", "value has the fields item, price; did you mean 'price'"),
        ([ROW], "value.price.cents", "'value.price.cents': value.price is of type int"),
        ([ROW, ("k", None, {"prise": 1})], "value.prise", None),
        ([ROW], "namespace.start", None),
        ([], "value.prise", None),
    ],
)
def test_a_field_that_no_entry_has_is_an_error(rows, field, problem):
    whole = FilterFields()
    for row in rows:
        part = FilterFields([condition_of(field, "==", 1)])
        part.look(row)
        whole.add(part.problems)
    if problem is None:
        whole.check()
        return
    with pytest.raises(InvalidProgramError, match=problem):
        whole.check()
