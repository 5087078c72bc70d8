"""Collected results of types that look different in functions."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.common import Row, Types
from penstock.datastream.data_stream.collected_values import conversion_of
from penstock.errors import SerializationError


def single(value):
    """Return the nearest 32-bit number."""
    return struct.unpack(">f", struct.pack(">f", value))[0]


@pytest.mark.parametrize(
    ("type_info", "in_functions", "collected"),
    [
        (Types.FLOAT(), single(0.1), 0.1),
        (Types.FLOAT(), -0.0, -0.0),
        (Types.FLOAT(), 16777216.0, 16777216.0),
        (Types.FLOAT(), 33554432.0, 33554432.0),
        (Types.FLOAT(), 2.0**31, 2147483650.0),
        (Types.FLOAT(), -(2.0**31), -2147483650.0),
        (Types.FLOAT(), 2.0**40, 1099511630000.0),
        (Types.FLOAT(), 2.0**53, 9007199300000000.0),
        (Types.FLOAT(), 2.0**63, 9.223372e18),
        (Types.FLOAT(), 2.0**70, 1.1805916e21),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", [97, -1]),
        (Types.LIST(Types.FLOAT()), [single(0.1), None], [0.1, None]),
        (Types.MAP(Types.FLOAT(), Types.INT()), {single(0.1): None}, {0.1: None}),
        (Types.MAP(Types.INT(), Types.FLOAT()), {1: None}, {1: None}),
        (Types.TUPLE([Types.INT(), Types.FLOAT()]), (1, single(0.1)), (1, 0.1)),
        (Types.ROW([Types.ROW([Types.FLOAT()])]), Row(Row(single(0.1))), Row(Row(0.1))),
        (Types.ROW([Types.FLOAT()]), Row(None), Row(None)),
    ],
)
def test_values_look_as_pyflink_hands_them_over(type_info, in_functions, collected):
    assert str(conversion_of(type_info)(in_functions)) == str(collected)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_is_no_number_cannot_be_collected(value):
    with pytest.raises(SerializationError, match="FLOAT"):
        conversion_of(Types.FLOAT())(value)


@pytest.mark.parametrize(
    "type_info",
    [None, Types.DOUBLE(), Types.LIST(Types.INT()), Types.TUPLE([Types.INT()]), Types.STRING()],
)
def test_most_types_are_not_converted(type_info):
    assert conversion_of(type_info) is None


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_shortest_number_is_the_same_number(value):
    assert single(conversion_of(Types.FLOAT())(value)) == value
