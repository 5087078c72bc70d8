"""The default body of an HttpSink is valid JSON, or an error."""

import math

import pytest
from penstock.common import Row
from penstock.connectors.http.sink import json_array
from penstock.errors import FormatError


def test_rows_become_objects():
    assert json_array([Row(a=1, b=Row(c=None)), 2]) == b'[{"a": 1, "b": {"c": null}}, 2]'


@pytest.mark.parametrize("record", [math.nan, {"a": math.inf}, Row(1, 2), object()])
def test_a_record_that_json_cannot_represent_is_an_error(record):
    with pytest.raises(FormatError, match=r"HttpSink: .*pass an encode function"):
        json_array([record])
