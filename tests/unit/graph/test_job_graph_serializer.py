"""The binary form of a JobGraph (internals M40): versioned, deterministic, strict."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.errors import SerializationError
from penstock.graph.job_graph_serializer import deserialize_job_graph, serialize_job_graph
from support.graphs import word_count

JOB_ID = bytes(range(16))


def sample():
    return word_count(
        configuration={"b": "2", "a": "1"},
        checkpoint_interval_ms=500,
    ).job_graph(job_id=JOB_ID)


def test_round_trip():
    job = sample()
    assert deserialize_job_graph(serialize_job_graph(job)) == job


def test_same_program_same_bytes_except_the_job_id():
    one, two = serialize_job_graph(sample()), serialize_job_graph(word_count().job_graph())
    again = serialize_job_graph(sample())
    assert one == again
    other = word_count().job_graph()
    assert serialize_job_graph(other)[22:] == two[22:]
    assert serialize_job_graph(other)[6:22] == other.job_id != two[6:22]


def test_header():
    data = serialize_job_graph(sample())
    assert data[:22] == b"PSJG\x00\x01" + JOB_ID


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: b"",
        lambda d: b"XXXX" + d[4:],
        lambda d: d[:4] + b"\x00\x09" + d[6:],
        lambda d: d[:-1],
        lambda d: d + b"\x00",
        lambda d: d[:22],
        lambda d: d[:22] + b"\xc1",
    ],
)
def test_damaged_bytes_are_refused(damage):
    with pytest.raises(SerializationError):
        deserialize_job_graph(damage(serialize_job_graph(sample())))


@settings(max_examples=200)
@given(st.integers(0), st.integers(0, 255))
def test_a_flipped_byte_is_refused_or_gives_a_job(position, value):
    """Damage raises no error except SerializationError, and never runs code."""
    data = bytearray(serialize_job_graph(sample()))
    data[position % len(data)] = value
    with contextlib.suppress(SerializationError):
        deserialize_job_graph(bytes(data))
