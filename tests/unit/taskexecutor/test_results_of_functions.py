"""Functions that return where they should yield, and yield where they should return."""

import pytest
from penstock.common.typeinfo import Types
from penstock.datastream import OutputTag
from penstock.errors import PenstockError
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.compiled import emit_results


def test_a_process_function_that_returns_a_value_is_told_to_yield():
    with pytest.raises(TypeError, match="not iterable") as caught:
        emit_results(None, 5, 0, OutputTag)
    assert caught.value.__notes__ == [
        "the function emits what it returns one by one, but it returned 5: write yield instead of "
        "return, or return a list"
    ]


def test_an_error_of_its_own_has_no_such_note():
    def results():
        yield from ()
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as caught:
        emit_results(None, results(), 0, OutputTag)
    assert not hasattr(caught.value, "__notes__")


def test_a_mapped_generator_is_told_to_be_in_flat_map():
    with pytest.raises(PenstockError, match="a yield belongs in flat_map"):
        codec_for(Types.PICKLED_BYTE_ARRAY()).encode(item for item in ())
