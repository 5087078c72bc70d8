"""Rows become instances of attrs classes, whatever their fields declare."""

import attrs
import pytest
from penstock.common import Row, Types
from penstock.common.record_reading import RecordReader, check_fields
from penstock.errors import InvalidProgramError


@attrs.define
class Order:
    item: str
    price: int = 5
    _note: str = "none"
    named: int = attrs.field(default=0, alias="given")
    total: int = attrs.field(init=False, default=1)


DECLARED = Types.of(Order)


def test_a_field_with_a_default_is_not_required():
    check_fields(DECLARED, ["item"], "as_records")
    assert RecordReader(DECLARED)(Row(item="tea")) == Order("tea")
    with pytest.raises(InvalidProgramError, match="needs the field 'item', which the rows lack"):
        check_fields(DECLARED, ["price"], "as_records")


def test_fields_reach_parameters_of_other_names():
    row = Row(item="tea", price=2, _note="hot", named=7, total=9)
    assert RecordReader(DECLARED)(row) == Order("tea", 2, "hot", 7)
