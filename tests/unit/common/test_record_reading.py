"""Rows become instances of attrs classes and pydantic models, whatever their fields declare."""

import attrs
import pydantic
import pytest
from penstock.common import Row, Types
from penstock.common.values.record_reading import RecordReader, check_fields
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


def test_a_tuple_that_was_read_as_a_row_is_a_tuple_again():
    @attrs.define
    class Visit:
        pair: tuple[str, int]

    read = RecordReader(Types.of(Visit))
    for pair in (Row(f0="a", f1=1), ["a", 1], ("a", 1)):
        assert read(Row(pair=pair)) == Visit(("a", 1))
    assert read(Row(pair=None)).pair is None


@pytest.mark.parametrize(
    ("alias", "config"),
    [
        (pydantic.Field(alias="userName"), {}),
        (pydantic.Field(validation_alias="userName"), {"populate_by_name": True}),
        (pydantic.Field(validation_alias=pydantic.AliasChoices("userName", "u")), {}),
        (pydantic.Field(serialization_alias="userName"), {}),
        (pydantic.Field(), {"alias_generator": str.upper}),
    ],
)
def test_fields_reach_the_aliases_of_a_model(alias, config):
    class Visit(pydantic.BaseModel):
        model_config = config
        user_name: str = alias

    read = RecordReader(Types.of(Visit))
    assert read(Row(user_name="ada", more=1)).user_name == "ada"


def test_an_alias_that_is_a_path_is_refused():
    class Visit(pydantic.BaseModel):
        user: str = pydantic.Field(validation_alias=pydantic.AliasPath("names", 0))

    with pytest.raises(InvalidProgramError, match=r"'user' is validated by AliasPath.*populate_by"):
        RecordReader(Types.of(Visit))
