"""Values of BSON become those of the declared types, or are rejected."""

import math

import pytest
from penstock.common.typeinfo import Types
from penstock.connectors.mongodb.values import reader_of


@pytest.mark.parametrize("value", [True, 1.5, math.nan, math.inf, 128])
def test_values_that_are_no_integers_of_a_type_are_rejected(value):
    assert reader_of(Types.BYTE())(127.0) == 127
    with pytest.raises(ValueError, match="expected an integer"):
        reader_of(Types.BYTE())(value)
