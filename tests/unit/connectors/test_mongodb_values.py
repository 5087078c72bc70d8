"""Values of BSON become those of the declared types, or are rejected."""

import math
from decimal import Decimal
from types import SimpleNamespace

import pytest
from penstock.common.typeinfo import Types
from penstock.connectors.mongodb.values import reader_of

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def decimal128(text):
    return SimpleNamespace(to_decimal=lambda: Decimal(text))


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (Types.BYTE(), 127.0, 127),
        (Types.BIG_INT(), decimal128("1e30"), 10**30),
        (Types.DOUBLE(), decimal128("0.5"), 0.5),
        (Types.BIG_DEC(), 0.1, Decimal("0.1")),
        (BYTES, b"ab", b"ab"),
    ],
)
def test_numbers_and_bytes_are_read(declared, value, expected):
    found = reader_of(declared)(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.BYTE(), True),
        (Types.BYTE(), 1.5),
        (Types.BYTE(), math.nan),
        (Types.BYTE(), math.inf),
        (Types.BYTE(), 128),
        (Types.BYTE(), decimal128("Infinity")),
        (Types.BIG_INT(), 1.5),
        (Types.BIG_INT(), "1"),
        (Types.DOUBLE(), False),
        (Types.BIG_DEC(), True),
        (BYTES, 5),
    ],
)
def test_values_of_other_types_are_rejected(declared, value):
    with pytest.raises((ValueError, TypeError), match="expected"):
        reader_of(declared)(value)
