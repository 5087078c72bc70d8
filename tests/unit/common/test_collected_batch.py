"""Collected records in batches: they are read back equal, and damage is detected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.common.jobs.collected_batch import append_element, elements_of
from penstock.errors import CorruptStreamError


def batch_of(elements):
    batch = bytearray()
    for element in elements:
        append_element(batch, element)
    return bytes(batch)


@given(st.lists(st.binary(max_size=20)))
def test_records_come_out_in_order(elements):
    assert list(elements_of(batch_of(elements))) == elements


@pytest.mark.parametrize("missing", [1, 3, 4, 6])
def test_a_batch_that_ends_within_a_record_is_refused(missing):
    damaged = batch_of([b"whole", b"cut"])[:-missing]
    with pytest.raises(CorruptStreamError, match="ends within a record"):
        list(elements_of(damaged))
