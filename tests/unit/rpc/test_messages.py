"""Messages: every struct is read back equal, and everything else is rejected.

Method: hypothesis builds structs from their types; garbage is random bytes and the messages of the
other direction.
"""

import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.errors import CorruptStreamError
from penstock.rpc import messages
from penstock.rpc.collect_messages import FromCollector, collect_decoder
from penstock.rpc.frames import MAX_FRAME_BYTES
from penstock.rpc.message import Message, encode_message

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
i64 = st.integers(-(2**63), 2**63 - 1)


def values_of(kind: typing.Any) -> st.SearchStrategy[typing.Any]:
    """Return values of a field's type, for the types that messages use."""
    simple = {
        bytes: st.binary(),
        str: st.text(),
        int: i64,
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
        type(None): st.none(),
    }
    if kind in simple:
        return simple[kind]
    if kind is typing.Any:
        return plain
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs_of(kind)
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    return st.one_of([values_of(argument) for argument in arguments])


def structs_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[typing.Any]:
    """Return instances of a message."""
    hints = typing.get_type_hints(kind)
    names = kind.__struct_fields__
    return st.builds(kind, *[values_of(hints[name]) for name in names])


DIRECTIONS: list[typing.Any] = [
    (messages.ToDriver, messages.driver_decoder),
    (messages.ToTaskExecutor, messages.task_executor_decoder),
    (FromCollector, collect_decoder),
]
ALL = [(kind, decoder) for union, decoder in DIRECTIONS for kind in typing.get_args(union)]


@pytest.mark.parametrize(("kind", "decoder"), ALL, ids=lambda value: getattr(value, "__name__", ""))
def test_every_message_survives_the_wire(kind: typing.Any, decoder: typing.Any) -> None:
    @settings(max_examples=20)
    @given(structs_of(kind))
    def check(message: typing.Any) -> None:
        assert decoder().decode(encode_message(message)) == message

    check()


@given(st.binary(max_size=300))
def test_garbage_is_a_corrupt_stream(data: bytes) -> None:
    for _, decoder in DIRECTIONS:
        try:
            message = decoder().decode(data)
        except CorruptStreamError:
            continue
        assert isinstance(message, Message)


def test_messages_of_the_other_direction_are_refused() -> None:
    own = encode_message(messages.Shutdown("over"))
    with pytest.raises(CorruptStreamError, match="Shutdown"):
        messages.driver_decoder().decode(own)


def test_a_missing_field_is_refused() -> None:
    data = msgspec.msgpack.encode({"type": "RequestSlot", "slot": 1})
    with pytest.raises(CorruptStreamError, match="job_id"):
        messages.task_executor_decoder().decode(data)


@pytest.mark.parametrize("size", [0, 1, messages.CODE_CHUNK_BYTES, messages.CODE_CHUNK_BYTES + 1])
def test_job_code_is_cut_into_chunks(size: int) -> None:
    code = bytes(size)
    chunks = messages.code_chunks("code", code)
    assert b"".join(chunk.data for chunk in chunks) == code
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(len(encode_message(c)) <= MAX_FRAME_BYTES for c in chunks)
