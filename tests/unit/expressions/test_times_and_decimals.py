"""Dates, times, timedeltas and decimals as constants of expressions.

Method: expressions are checked for a class with such fields, computed for an instance, and compiled
to a program, which `explain` calls evaluated.
"""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from zoneinfo import ZoneInfo

import pytest
from penstock.common import Types
from penstock.errors import InvalidProgramError
from penstock.expressions import field, when
from penstock.expressions.computed import computed
from penstock.expressions.evaluation import Called, Evaluation, Stage
from penstock.network import runtime


class Kind(Enum):
    OPEN = "open"


@dataclass
class Order:
    at: datetime
    day: date
    hour: time
    price: Decimal
    took: timedelta
    count: int
    name: str
    kind: Kind


ORDER = Types.of(Order)
NOON = datetime(2026, 1, 2, 12)
FIRST = Order(
    NOON, date(2026, 1, 2), time(12), Decimal("2.50"), timedelta(hours=1), 3, "Ann", Kind.OPEN
)
UTC_NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)  # noqa: UP017, the class that is known
ROME = ZoneInfo("Europe/Rome")


@pytest.mark.parametrize(
    ("expression", "expected", "type_info"),
    [
        (field("at") > datetime(2026, 1, 2), True, Types.BOOLEAN()),
        (datetime(2026, 1, 2) > field("at"), False, Types.BOOLEAN()),
        (field("at").between(NOON, NOON), True, Types.BOOLEAN()),
        (field("at").is_in([NOON, None]), True, Types.BOOLEAN()),
        (field("day") == date(2026, 1, 2), True, Types.BOOLEAN()),
        (field("hour") < time(13), True, Types.BOOLEAN()),
        (field("price") >= Decimal("2.5"), True, Types.BOOLEAN()),
        (field("count") < Decimal("2.5"), False, Types.BOOLEAN()),
        (field("price") * Decimal(2), Decimal("5.00"), Types.BIG_DEC()),
        (field("took") <= timedelta(hours=1), True, None),
        (field("at") + timedelta(days=1), NOON + timedelta(days=1), Types.SQL_TIMESTAMP()),
        (timedelta(days=1) + field("day"), date(2026, 1, 3), Types.SQL_DATE()),
        (field("at") - NOON, timedelta(), None),
        (field("day") - date(2026, 1, 1) == timedelta(1), True, None),
        (field("at") + timedelta(hours=1) * field("count"), datetime(2026, 1, 2, 15), None),
        (when(field("count") > 1).then(NOON).otherwise(None), NOON, Types.SQL_TIMESTAMP()),
    ],
    ids=str,
)
def test_times_and_decimals_are_computed_and_typed(expression, expected, type_info):
    compute = computed(expression, "map", [ORDER])
    assert compute(FIRST) == expected
    assert compute.type == type_info
    if runtime() == "native":
        assert not isinstance(Evaluation().decide([Stage(compute)]), Called)
        assert Evaluation().without_call(compute, 1, (ORDER,))(FIRST) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (field("at") > 3, "compares TimestampTypeInfo with BigInteger, which have no order"),
        (field("count") > NOON, "compares Long with TimestampTypeInfo, which have no order"),
        (field("day") > NOON, "compares DateTypeInfo with TimestampTypeInfo, which have no order"),
        (field("at") > timedelta(1), "with a timedelta, which have no order"),
        (field("day") == NOON, "which it never is"),
        (field("at") == timedelta(1), "which it never is"),
        (field("name") == Decimal(1), "which it never is"),
        (field("at").is_in([date(2026, 1, 2)]), "which it never is"),
        (field("at") + 1, "which are not numbers"),
        (field("hour") + timedelta(1), "and a timedelta, which are not numbers"),
        (timedelta(1) - field("at"), "computes with a timedelta and TimestampTypeInfo"),
        (field("at") + field("at"), "which are not numbers"),
        (field("price") * 0.5, "mixes decimals with floats"),
    ],
    ids=str,
)
def test_impossible_computations_are_rejected(expression, message):
    with pytest.raises(InvalidProgramError, match=message):
        computed(expression, "filter", [ORDER])


@pytest.mark.skipif(runtime() != "native", reason="no function is evaluated")
@pytest.mark.parametrize(
    "expression",
    [
        field("kind") == Kind.OPEN,
        field("kind").is_in([Kind.OPEN]),
        field("at") > datetime(2026, 1, 2, tzinfo=ROME),
        field("hour") > time(1, tzinfo=ROME),
    ],
    ids=str,
)
def test_constants_with_operators_of_their_own_are_compared_by_the_function(expression):
    called = Evaluation().decide([Stage(computed(expression, "filter", [ORDER]))])
    assert isinstance(called, Called)
    assert "whose operators are Python code" in str(called)


def test_a_time_with_a_fixed_offset_is_compared():
    order = Order(**{**vars(FIRST), "at": UTC_NOON})
    compute = computed(field("at") >= UTC_NOON, "filter", [ORDER])
    assert compute(order)
    if runtime() == "native":
        assert Evaluation().without_call(compute, 1, (ORDER,))(order)
