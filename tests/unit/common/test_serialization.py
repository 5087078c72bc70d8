"""Schemas of text accept only charsets that encode text."""

import pytest
from penstock.common import Encoder, SimpleStringSchema
from penstock.errors import InvalidProgramError


@pytest.mark.parametrize("create", [SimpleStringSchema, Encoder.simple_string_encoder])
@pytest.mark.parametrize("name", ["hex", "rot13", "no-such", "a\0b"])
def test_a_codec_that_does_not_encode_text_is_rejected(create, name):
    with pytest.raises(InvalidProgramError, match="unknown charset"):
        create(name)


def test_charsets_with_several_bytes_are_accepted():
    assert SimpleStringSchema("utf-16-le").serialize("a") == b"a\0"
